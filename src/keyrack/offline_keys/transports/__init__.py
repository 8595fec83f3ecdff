"""How messages between phone and box travel: Bluetooth, NFC and wire. It has no input, output or clock of its own."""
