"""In charge of what units tell: taken in by HTTP and MQTT, the newest state, and history."""
