"""Everything that may happen, by name, with the ranges of its arguments.

An event is a name and whole numbers, so that a history prints, replays and shrinks. Arguments are
taken modulo what there is: an event means something in every world, also after others were dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation import log_events, run_events, table_events
from tests.simulation.world import World

Event = tuple[str | int, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of event.

    Args:
        act: What it does.
        weight: How often it is chosen, among all kinds; 0 for what only series have.
        bounds: Of each argument, both inclusive.
    """

    act: Callable[..., None]
    weight: float
    bounds: tuple[tuple[int, int], ...] = ()


_SMALL, _ANY, _FLAG = (0, 2), (0, 5), (0, 1)
KINDS: dict[str, Kind] = {
    "produce": Kind(log_events.produce, 10, (_SMALL, _SMALL, (1, 8))),
    "transaction": Kind(log_events.transaction, 2, (_SMALL, _SMALL, (1, 4), _FLAG)),
    "open_transaction": Kind(log_events.open_transaction, 1, (_SMALL, _SMALL, (1, 3))),
    "end_transactions": Kind(log_events.end_transactions, 1, (_FLAG,)),
    "expire": Kind(log_events.expire, 2, (_SMALL, _SMALL, (10, 100))),
    "truncate": Kind(log_events.truncate, 2, (_SMALL, _SMALL, (1, 10), (0, 12))),
    "elect": Kind(log_events.elect, 1, (_SMALL, _SMALL)),
    "hole": Kind(log_events.hole, 0.5, (_SMALL, _SMALL, (0, 3))),
    "unreadable": Kind(log_events.unreadable, 1, (_SMALL, _SMALL, (0, 8))),
    "readable": Kind(log_events.readable, 0.3),
    "garble": Kind(log_events.garble, 1, (_SMALL, _SMALL, (0, 8))),
    "decodable": Kind(log_events.decodable, 0.5),
    "recreate": Kind(log_events.recreate, 1, (_SMALL, (0, 12))),
    "grow": Kind(log_events.grow, 0.5, (_SMALL,)),
    "drop_partition": Kind(log_events.drop_partition, 0.3, (_SMALL,)),
    "delete_topic": Kind(log_events.delete_topic, 0.5, (_SMALL,)),
    "create_topics": Kind(log_events.create_topics, 1, ((0, 6),)),
    "swap_cluster": Kind(log_events.swap_cluster, 0.3, ((0, 6),)),
    "broker": Kind(log_events.broker, 2, ((0, 4), (1, 6))),
    "empty_epochs": Kind(log_events.empty_epochs, 0.3, (_FLAG,)),
    "hide": Kind(log_events.hide, 1, (_SMALL, _FLAG)),
    "untell": Kind(table_events.untell, 0.3, (_FLAG,)),
    "refuse": Kind(log_events.refuse, 0.5, (_SMALL,)),
    "grant": Kind(log_events.grant, 1),
    "optimize": Kind(table_events.optimize, 2),
    "foreign_delete": Kind(table_events.foreign_delete, 0.7, ((10, 100),)),
    "foreign_append": Kind(table_events.foreign_append, 0.3, ((1, 3),)),
    "restore": Kind(table_events.restore, 0.5, ((1, 3),)),
    "drop_table": Kind(table_events.drop_table, 0.2),
    "drop_typed": Kind(table_events.drop_typed, 0.3, (_SMALL,)),
    "vanish": Kind(table_events.vanish, 0.2),
    "lose_table_answer": Kind(table_events.lose_table_answer, 1),
    "lose_typed_answer": Kind(table_events.lose_typed_answer, 0.7, (_SMALL,)),
    "lose_ledger_answer": Kind(table_events.lose_ledger_answer, 1),
    "ledger_away": Kind(table_events.ledger_away, 0.5, ((1, 3),)),
    "save_ledger": Kind(table_events.save_ledger, 0.7),
    "restore_ledger": Kind(table_events.restore_ledger, 0.7),
    "clean_log": Kind(table_events.clean_log, 0.3, ((1, 3),)),
    "vacuum": Kind(table_events.vacuum, 0.5),
    "spark_loses": Kind(table_events.spark_loses, 0.7, ((1, 2),)),
    "spark_repeats": Kind(table_events.spark_repeats, 0.3, ((1, 2),)),
    "spark_fails": Kind(table_events.spark_fails, 0.7, ((1, 2),)),
    "live": Kind(run_events.live, 9, (_FLAG,)),
    "backfill": Kind(run_events.backfill, 4, (_SMALL, _SMALL, (0, 90), (1, 12))),
    "window": Kind(run_events.window, 1, ((0, 100), (0, 100))),
    "next_window": Kind(run_events.next_window, 0.5, (_SMALL, _FLAG, (1, 60))),
    "again": Kind(run_events.again, 6, (_ANY, (0, 7))),
    "decode": Kind(run_events.decode, 1, (_ANY,)),
    "redrive": Kind(run_events.redrive_again, 1, (_FLAG,)),
    "decode_anew": Kind(run_events.decode_anew, 0.5, (_FLAG,)),
    "fold": Kind(run_events.fold, 1, (_ANY,)),
    "fold_anew": Kind(run_events.fold_anew, 0.5),
    "sweep": Kind(run_events.sweep, 0, ((10, 100),)),
    "edit_current": Kind(run_events.edit_current, 0.3),
    "stray": Kind(log_events.stray, 0.3, (_SMALL, _SMALL)),
    "drop_current": Kind(table_events.drop_current, 0.3),
    "change_current": Kind(table_events.change_current, 0.3, ((0, 3),)),
    "restore_typed": Kind(table_events.restore_typed, 0.3, (_SMALL,)),
    "edit_decode": Kind(run_events.edit_decode, 0.5),
    "edit_types": Kind(run_events.edit_types, 0, (_SMALL,)),
    "retell_types": Kind(run_events.retell_types, 0),
    "end_first_type": Kind(run_events.end_first_type, 0),
    "take_type_out": Kind(run_events.take_type_out, 0),
    "rename": Kind(run_events.rename, 0),
    "rewind": Kind(run_events.rewind, 1, (_ANY, _FLAG)),
    "audit": Kind(run_events.audit, 0.5),
    "look": Kind(run_events.look, 0.5),
    "move": Kind(run_events.move, 0.3, (_SMALL,)),
    "decide": Kind(run_events.decide, 5, (_ANY, _SMALL)),
    "edit_topics": Kind(run_events.edit_topics, 0.7, (_SMALL,)),
    "skew": Kind(run_events.skew, 0.5, (_ANY, (0, 20))),
    "step": Kind(run_events.step, 16, (_ANY, (1, 40))),
    "finish": Kind(run_events.finish, 14, (_ANY,)),
    "kill": Kind(run_events.kill, 3, (_ANY, _FLAG)),
    "pass_time": Kind(run_events.pass_time, 2, ((1, 200), (0, 7))),
    "maintain": Kind(run_events.maintain, 0.5),
    "erase": Kind(run_events.erase, 0.7, (_SMALL, (0, 3))),
    "erase_changes": Kind(run_events.erase_changes, 0, ((0, 4), _FLAG)),
    "readdress": Kind(run_events.readdress, 0),
    "finish_erasing": Kind(run_events.finish_erasing, 0.5),
    "overwrite": Kind(table_events.overwrite, 0.3),
    "put_copy_back": Kind(table_events.put_copy_back, 0.3, ((1, 3),)),
    "move_away": Kind(table_events.move_away, 0.3),
    "move_back": Kind(table_events.move_back, 0.7),
    "occupy": Kind(table_events.occupy, 0.2),
}


def apply(world: World, event: Event) -> None:
    """Have an event happen.

    Raises:
        KeyError: No such kind.
    """
    name, *arguments = event
    KINDS[str(name)].act(world, *arguments)


def draw(random: Random, kinds: dict[str, Kind]) -> Event:
    """A random event."""
    (name,) = random.choices(list(kinds), [k.weight for k in kinds.values()])
    return (name, *(random.randint(low, high) for low, high in kinds[name].bounds))
