"""What fields are called in the table."""

import pytest

from tideline.decoding.schemas.schema_changes import OWN_COLUMNS, column_name, nested_names


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("amount", "amount"),
        ("order id", "order_id"),
        ("a.b", "a_b"),
        ("a,b;c{d}e(f)g\nh\ti=j`k", "a_b_c_d_e_f_g_h_i_j_k"),
        ("", "_"),
        ("2fast", "2fast"),
        ("user-id", "user-id"),
        ("größe", "größe"),
        ("timestamp", "value_timestamp"),
        ("Offset", "value_Offset"),
        ("topic id", "value_topic_id"),
    ],
)
def test_a_field_s_column_has_a_name_that_tables_take(field, column):
    """Refused characters become `_`; the table's own columns keep their names."""
    assert column_name(field, ()) == column


@pytest.mark.parametrize("own", OWN_COLUMNS)
def test_the_table_s_own_columns_are_never_a_field_s(own):
    """Whether a stream has the column or not: it may get it later."""
    assert column_name(own, ()) == f"value_{own}"
    assert column_name(own.upper(), ()) == f"value_{own.upper()}"


def test_a_key_s_fields_have_a_prefix():
    """It keeps them apart from the value's, and from the table's own."""
    assert column_name("id", (), key=True) == "key_id"
    assert column_name("timestamp", (), key=True) == "key_timestamp"


def test_names_that_are_taken_get_a_number():
    """In whatever case they are taken."""
    assert column_name("ID", {"id"}) == "ID_2"
    assert column_name("a b", {"a_b", "a_b_2"}) == "a_b_3"
    assert column_name("timestamp", {"value_timestamp"}) == "value_timestamp_2"


def test_the_fields_of_a_struct_have_no_columns_to_mind():
    """But each other, and later ones rename no earlier ones."""
    names = nested_names(["timestamp", "a b", "a.b", "A_B", ""])
    assert names == ["timestamp", "a_b", "a_b_2", "A_B_3", "_"]
    assert nested_names(["timestamp", "a b"]) == names[:2]
