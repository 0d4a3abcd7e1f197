"""How many buckets an audit reads: what cannot be is refused before anything is asked."""

import pytest

from tideline.cli.main import main
from tideline.errors import BadInput

STREAM = """\
stream: orders
kafka: {connection: kafka, topics: [orders]}
table: {uri: /lake/orders}
"""


@pytest.mark.parametrize(
    ("buckets", "said"),
    [
        ("-1", "--buckets: got -1; allowed: 0 or more"),
        ("1", "current: got nothing; required for --buckets"),
    ],
)
def test_buckets_that_cannot_be_read_are_refused(tmp_path, capsys, buckets, said):
    path = tmp_path / "orders.yaml"
    path.write_text(STREAM)
    assert main(["audit", str(path), f"--buckets={buckets}"]) == BadInput.exit_code
    assert said in capsys.readouterr().err
