"""The wheel in a fresh virtual environment outside of the checkout, used as its users do.

    python -m tests.wheel                                     every Python and Airflow of `CASES`
    python -m tests.wheel --python 3.13 --airflow 3.3.2       one of them

`tests/integration/test_wheel.py` does the same with the packages that `make setup` has installed.
"""
