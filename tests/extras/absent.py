"""What is said where an extra is not installed."""

import contextlib
import importlib
import io

from gcl_hard import MissingExtraError


def refused_import(public: str, extra: str) -> None:
    """A public name that cannot be had, which says the extra that brings it."""
    package, _, name = public.rpartition(".")
    try:
        getattr(importlib.import_module(package), name)
    except MissingExtraError as error:
        assert f"[{extra}]" in str(error), error
        assert public.startswith(str(error).split(" needs ")[0]), error
    else:
        raise AssertionError(f"{public} is there")


def refused_command(extra: str, command: str, *arguments: str) -> None:
    """A command that ends with status 2 and the extra that it lacks."""
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(io.StringIO()):
        status = importlib.import_module(f"gcl_hard.{command}").main([*arguments])
    assert status == 2, (status, output.getvalue())
    assert f"'.[{extra}]'" in output.getvalue(), output.getvalue()
    assert "Traceback" not in output.getvalue(), output.getvalue()
