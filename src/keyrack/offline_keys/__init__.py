"""In charge of keys that open boxes without a network: messages, and the reference of box and phone."""
