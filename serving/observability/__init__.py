"""What a server tells its operators: metrics, access log, prediction log, shadow traffic."""
