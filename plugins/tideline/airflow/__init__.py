"""Translates between Airflow and the steps; decides nothing."""
