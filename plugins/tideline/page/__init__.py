"""The page in Airflow: streams at a glance, closed to whoever may not read their Dags.

app         the application that Airflow's server mounts, and its headers
routes      the API, one function a route, and who may see what: Airflow's own rights
building    from what is known to what is answered
sources     ledgers and brokers, asked in the background
bands       what is known of a stream, and its coverage as a picture
assets      the page itself: no build step, nothing from elsewhere
"""
