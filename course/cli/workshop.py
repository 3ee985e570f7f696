"""`course workshop …`: a room of learners on one host."""

from typing import Annotated

import typer

app = typer.Typer(help="A room of learners on one host.", no_args_is_help=True)


@app.command()
def rehearse(
    seats: Annotated[int, typer.Option(help="How many learners the room will have.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Do on this host what the room will do, as a learner would: green, or red with the sentence
    that helps. Exit 1 where anything is red."""
    from course.workshop import rehearse as rehearsal

    outcomes: list[rehearsal.Outcome] = []

    def say(outcome: rehearsal.Outcome) -> None:
        outcomes.append(outcome)
        if not as_json:
            print(outcome, flush=True)

    green = rehearsal.rehearse(seats, say)
    if as_json:
        print(rehearsal.as_json(outcomes))
    else:
        print("All green." if green else "Not ready: see what is RED above.")
    raise typer.Exit(0 if green else 1)
