"""The page in Airflow: streams at a glance, closed to whoever may not read their Dags.

app         the application that Airflow's server mounts, and its headers
routes      the API, one function a route
access      who may see what: Airflow's own rights
sources     ledgers and brokers, asked in the background
lookout     never more than one question at a time, and none too soon after the last
building    from what is known to what is answered
assets      the page itself: no build step, nothing from elsewhere
"""
