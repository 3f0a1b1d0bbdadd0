"""Encoders exported as programs of PyTorch and of ONNX, and checked against the encoder.

An experiment provides what is exported; tracing and checking know no domain.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import GclHardError, InputError, calling_own
from gcl_hard.files.io import json_text
from gcl_hard.models import evaluating

TOLERANCE = 1e-4
"""Largest difference between an exported file and its encoder, relative to the largest value."""
CHECKED = (1, 5)
"""Numbers of graphs, or of images, on which an exported file is checked."""
TRACED = 4
FACTS = "facts.json"
"""The file in NAME.pt2 that has the facts."""


@dataclass(frozen=True)
class Exportable:
    """An encoder to be exported.

    Attributes:
        module: takes tensors by name, and returns one or several.
        inputs: the axes of variable length of each tensor, by its name.
        outputs: the kind of rows of each output, by its name.
        random_inputs: random arguments for a number of graphs or images.
        facts: metadata of the file, such as the names of feature columns.
        remedy: what to do if the module cannot be traced, at the end of the message.
    """

    module: nn.Module
    inputs: Mapping[str, Mapping[int, Dim]]
    outputs: Mapping[str, str]
    random_inputs: Callable[[int], dict[str, Tensor]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""


def program_of(exportable: Exportable, label: str) -> tuple[bytes, bool]:
    """Content of NAME.pt2, which ``torch.export.load`` reads, and True, since it was checked.

    Args:
        exportable: the encoder.
        label: its name in messages.

    Raises:
        InputError: if it cannot be traced, with PyTorch's reason, or differs from the encoder.
    """
    file = io.BytesIO()
    with evaluating(exportable.module):
        with _converting(label):
            facts = {FACTS: json_text({**exportable.facts})}
            torch.export.save(_traced(exportable, label), file, extra_files=facts)
            loaded = torch.export.load(io.BytesIO(file.getvalue())).module()
        _check(exportable, label, lambda inputs: loaded(**inputs))
    return file.getvalue(), True


def onnx_of(exportable: Exportable, label: str) -> tuple[bytes, bool]:
    """Content of NAME.onnx, and whether it was checked, which needs ONNX Runtime.

    Args:
        exportable: the encoder.
        label: its name in messages.

    Raises:
        InputError: as of :func:`program_of`, and for operations that ONNX does not have.
        MissingExtraError: without ``onnx`` or ``onnxscript``.
    """
    check_extra("onnx", f"exporting {label} to ONNX", "onnx", "onnxscript")
    with evaluating(exportable.module):
        with _converting(label):
            program = torch.onnx.export(
                _traced(exportable, label), dynamo=True, verbose=False,
                input_names=[*exportable.inputs], output_names=[*exportable.outputs],
            )  # fmt: skip
            assert program is not None
            model: Any = program.model_proto
            _name_axes(model.graph, exportable)
            for name, fact in exportable.facts.items():
                text = fact if isinstance(fact, str) else json_text(fact)
                model.metadata_props.add(key=name, value=text)
            content: bytes = model.SerializeToString()
        if find_spec("onnxruntime") is None:
            return content, False
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what fails is raised
        with calling_own(f"ONNX Runtime does not take {label}"):
            session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        names = [port.name for port in session.get_inputs()]
        _check(
            exportable, label,
            lambda inputs: session.run(None, {name: inputs[name].numpy() for name in names}),
        )  # fmt: skip
    return content, True


WRITERS: Mapping[str, Callable[[Exportable, str], tuple[bytes, bool]]] = {
    ".onnx": onnx_of,
    ".pt2": program_of,
}
"""Functions that export an encoder, by the suffix of the file."""


def _traced(exportable: Exportable, label: str) -> ExportedProgram:
    inputs = exportable.random_inputs(TRACED)
    axes = {name: dict(exportable.inputs[name]) for name in inputs}

    def trace(*, strict: bool) -> ExportedProgram:
        return torch.export.export(
            exportable.module, (), inputs, dynamic_shapes=axes, strict=strict
        )

    try:
        program = trace(strict=False)
    except Exception as error:
        try:
            program = trace(strict=True)  # follows int(batch.max()) + 1 of others' readouts
        except Exception:  # its reason is harder to read than the first
            raise InputError(
                f"{label} cannot be traced: {_reason(error)}. A program is the same for all data: "
                f"no if, for or size may depend on what tensors hold{exportable.remedy}"
            ) from error
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            node.meta.pop("stack_trace", None)  # has the paths of this machine
    return program


def _name_axes(graph: Any, exportable: Exportable) -> None:
    """Name the axes of an ONNX graph instead of symbols."""
    names: dict[str, str] = {}
    for tensor in graph.input:
        shape = tensor.type.tensor_type.shape.dim
        names |= {
            shape[k].dim_param: dim.__name__ for k, dim in exportable.inputs[tensor.name].items()
        }
    for tensor in graph.output:
        symbol = tensor.type.tensor_type.shape.dim[0].dim_param
        names.setdefault(symbol, exportable.outputs[tensor.name])
    for tensor in (*graph.input, *graph.output, *graph.value_info):
        for length in tensor.type.tensor_type.shape.dim:
            if length.dim_param in names:
                length.dim_param = names[length.dim_param]


def _check(exportable: Exportable, label: str, run: Callable[[dict[str, Tensor]], Any]) -> None:
    """Refuse an exported file whose embeddings differ from the encoder's."""
    for n in CHECKED:
        inputs = exportable.random_inputs(n)
        with calling_own(f"{label} fails on data made for it"):
            expected = exportable.module(**inputs)
        with calling_own(f"{label} is exported, and then fails on data made for it"):
            got = run(inputs)
        for name, ours, other in zip(
            exportable.outputs, _several(expected), map(torch.as_tensor, _several(got)), strict=True
        ):
            # Relative to the largest value; all may be 0.
            atol = TOLERANCE * (float(ours.abs().max()) or 1.0)
            try:
                torch.testing.assert_close(other, ours, rtol=0, atol=atol, check_dtype=False)
            except AssertionError as error:
                raise InputError(
                    f"{label} is exported wrongly, and not written: {name} of {n}: "
                    f"{' '.join(str(error).split())}{exportable.remedy}"
                ) from error


def _several(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


@contextmanager
def _converting(label: str) -> Iterator[None]:
    """InputError with PyTorch's reason, without its own output."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except GclHardError:
        raise
    except Exception as error:
        raise InputError(f"{label} cannot be exported: {_reason(error)}") from error
    finally:
        logging.disable(disabled)


SOURCE = re.compile(r'File "([^"]+)", line (\d+), in \w+\n\s*(.+)')
"""The origin of an error in a message of PyTorch."""


def _reason(error: BaseException) -> str:
    """The first line of the first cause of a failed export, and the line of the user's code."""
    while error.__cause__ is not None:
        error = error.__cause__
    message = str(error).strip() or type(error).__name__
    places = [
        f" ({Path(file).name}, line {n}: {code})" for file, n, code in SOURCE.findall(message)
    ]
    return message.splitlines()[0] + (places[-1] if places else "")
