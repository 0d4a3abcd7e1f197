"""The ports that this version of the product writes through."""

from tideline.table.port import TablePort

if hasattr(TablePort, "commit"):
    from tests.simulation.spark import SimulatedSpark
    from tests.simulation.table import SimulatedTable
else:
    from tests.simulation.oldport import OldSpark as SimulatedSpark
    from tests.simulation.oldport import OldTable as SimulatedTable

__all__ = ["SimulatedSpark", "SimulatedTable"]
