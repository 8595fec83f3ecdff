"""The command that receives telemetry from an MQTT broker."""

from __future__ import annotations

import asyncio
import json
import signal

import typer

from keyrack.cli.cell_choice import CellName, named_cell
from keyrack.cli.commands.run import running_database
from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.core import log_config
from keyrack.core.background_tasks import supervise
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import ChangeNotifier
from keyrack.db.connection import Database

app = typer.Typer()


@app.command("ingest-mqtt")
def ingest_mqtt(state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """Receive telemetry from the broker KEYRACK_MQTT_URL. With --json, one line reports the subscription."""

    def run() -> None:
        settings = named_cell(read_settings(state), cell).settings
        log_config.configure(settings.log_level)
        check_beginning(settings, "ingest-mqtt", named=False)  # a new database has no units
        warn_of_names()
        with running_database(settings, migrates=False) as dsn:
            asyncio.run(_run(settings, dsn, as_json))

    explained(run)


async def _run(settings: Settings, dsn: str, as_json: bool) -> None:
    from keyrack.telemetry.mqtt import Subscriber

    def ready() -> None:
        where = {"broker": settings.mqtt_url.rpartition("@")[2].removeprefix("mqtt://"), "topic": settings.mqtt_topic}
        text = f"Subscribed to {where['topic']} at {where['broker']}. Stop with Ctrl-C."
        print(json.dumps(where) if as_json else text, flush=True)

    db = await Database.connect(dsn, settings, application="keyrack mqtt")
    try:
        tell = ChangeNotifier(db)
        telling = asyncio.create_task(supervise("change notifier", tell.run))
        subscriber = Subscriber(db, settings, tell)
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, subscriber.stop)
        await subscriber.run(ready)
        telling.cancel()
        await asyncio.wait((telling,))
    finally:
        await db.close()
