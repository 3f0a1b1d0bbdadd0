"""The command ``pretrain``: an encoder of molecules or images, trained without targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from jsonargparse import ArgumentParser

from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    read_arguments,
)
from gcl_hard.errors import InputError
from gcl_hard.extras import check_extra
from gcl_hard.graphs.moleculenet import SOURCES, is_file
from gcl_hard.settings.base import defaults, flag
from gcl_hard.settings.flags import add_options, add_settings, all_settings, options_of
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.images import ImageConfig
from gcl_hard.settings.presets import PRETRAINING, PRETRAINING_IMAGES
from gcl_hard.settings.pretraining import IMAGE_OTHERS, OTHERS, PretrainOptions, of_others


def pretrain_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.pretrain``."""
    parser = entry_parser(
        "gcl_hard.pretrain",
        "Train an encoder of molecules, or of images, without targets, and save it. The same "
        "command goes on where it was stopped.",
        "--dataset photos/ --method hucl --output encoder.pt",
    )
    texts = {
        "dataset": "molecules: MOSES, a set of MoleculeNet's, or NAME.csv; images: a folder, or a "
        "set by its name",
        "method": all_settings()["method"][2].partition(";")[0],
        "epochs": "passes over the data", "batch_size": "molecules or images in a batch",
    }  # fmt: skip
    of_images = defaults(ImageConfig) | PRETRAINING_IMAGES
    usual: dict[str, Any] = {
        name: {"graphs": one, "images": of_images[name]} if of_images.get(name, one) != one else one
        for name, one in (defaults(GraphConfig) | PRETRAINING).items()
        if name in PRETRAINING or name in PRETRAINING_IMAGES
    }
    usual["dataset"] = PRETRAINING["dataset"]
    names = {*defaults(GraphConfig)} - {*OTHERS} | {*defaults(ImageConfig)} - {*IMAGE_OTHERS}
    of: dict[str, Any] = {"listed": False, "own": usual, "texts": texts, "names": names}
    add_settings(parser, common=True, **of)
    add_options(parser, "pre-training", PretrainOptions, options_of(PretrainOptions))
    add_settings(parser, common=False, **of)
    return parser


def parse_pretrain(arguments: Sequence[str]) -> PretrainOptions:
    """Read the command line of ``python -m gcl_hard.pretrain``.

    Args:
        arguments: without the program's name.

    Returns:
        The options, checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    stated = read_arguments(pretrain_parser(), arguments)
    printing = stated.pop("print_config", False)
    source = str(stated.get("dataset", PRETRAINING["dataset"]))
    config, usual, others = _kind(source, stated.get("data_dir"))
    settings = {name: stated.pop(name) for name in defaults(config) if name in stated}
    for name in stated:
        if name not in option_defaults(PretrainOptions):
            raise of_others(name, config, source)
    for name in {*settings} & {*others}:
        raise InputError(f"{flag(name)} is not read by pre-training on {source}: leave it out")
    if printing:
        values = usual | option_defaults(PretrainOptions) | settings | stated
        print_config({name: value for name, value in values.items() if name not in others})
    named = settings | {"dataset": PurePath(source).name if config is ImageConfig else source}
    return PretrainOptions(config(**usual | named), source, **stated)


def _kind(
    source: str, data_dir: Path | None
) -> tuple[type[GraphConfig | ImageConfig], dict[str, Any], Sequence[str]]:
    """The configurations of what data hold, their defaults, and settings that are not read."""
    named = is_file(source) or source.casefold() in map(str.casefold, SOURCES)
    folder = source.endswith("/") or Path(source).is_dir()
    images = folder or ImageConfig.has_dataset(source, data_dir)
    if images and not named:
        return ImageConfig, PRETRAINING_IMAGES, IMAGE_OTHERS
    return GraphConfig, PRETRAINING, OTHERS


STOPPED = "stopped; the same command goes on from the last checkpoint"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    options = parse_pretrain(arguments)
    if isinstance(options.config, ImageConfig):
        check_extra("images", "pre-training on images")
        from gcl_hard.experiments.image_pretraining import pretrain_images

        pretrain_images(options)
        return 0
    check_extra("molecules", "pre-training on molecules")
    from gcl_hard.experiments.pretraining import pretrain

    pretrain(options)
    return 0
