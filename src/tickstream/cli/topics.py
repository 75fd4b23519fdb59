"""`tickstream topics`: create what an installation needs, and check it for drift."""

from __future__ import annotations

from typing import Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, settings_from
from tickstream.cli.output import Output

app = typer.Typer(no_args_is_help=True, help="Create the topics, and check them for drift.")

Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="NAME", help="A queue to have beside `default`; may be repeated."),
]


@app.command()
def create(
    queue: Queues = None,
    buckets: Annotated[
        int | None,
        typer.Option(
            min=1, help="Partitions of the large topics; fixed from then on.  (default 8; in production 64)"
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(min=1, help="Groups of buckets with one owner each.  (default 4; in production 16)"),
    ] = None,
    replication: Annotated[
        int,
        typer.Option(
            "--replication", "--replication-factor", min=1, help="Copies of every topic; in production 3."
        ),
    ] = 1,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Create the topics that are missing; those that exist stay as they are.

    \b
    Examples:
      tickstream topics create
      tickstream topics create --queue mail --queue reports
      tickstream topics create --buckets 64 --lanes 16 --replication 3
    """
    from tickstream.kafka import Admin
    from tickstream.ops.topics import wanted_topics
    from tickstream.topics import TopicNames

    settings = settings_from(bootstrap, prefix)
    admin = Admin(settings)
    names = TopicNames(settings.prefix)
    table = wanted_topics(names, admin.partitions(), queues=queue or (), buckets=buckets, lanes=lanes)
    created = sorted(admin.create(table, replication=replication))
    text = "\n".join(f"created {name}" for name in created) or "nothing to do: all topics exist"
    Output(json).result({"created": created}, text)


@app.command()
def check(
    queue: Queues = None, bootstrap: Bootstrap = None, prefix: Prefix = None, json: Json = False
) -> None:
    """Compare the topics with what they should be; exit code 1 when something differs.

    \b
    Example:
      tickstream topics check --queue mail
    """
    from tickstream.kafka import Admin
    from tickstream.ops.topics import wanted_topics
    from tickstream.topics import TopicNames

    settings = settings_from(bootstrap, prefix)
    admin = Admin(settings)
    table = wanted_topics(TopicNames(settings.prefix), admin.partitions(), queues=queue or ())
    drift = admin.drift(table)
    Output(json).result(
        {"topics": len(table), "drift": drift},
        "\n".join(drift) or f"{len(table)} topics, all as they should be",
    )
    if drift:
        raise typer.Exit(1)
