"""A domain of one's own, its table and page of figures; vectors; what other data would need."""

from pathlib import Path

from gcl_hard import bench
from tests.extras.absent import refused_command
from tests.extras.own_domain import IRIS

command = [*IRIS, "--method=ucl,hscl,raw", "--seeds=2"]
assert bench.main(command) == 0
assert bench.main([*command, "--report-only", "--report=page.md"]) == 0
assert Path("page.md").read_text(encoding="utf-8").count("hscl") > 1
assert [*Path().glob("page*.png")]
assert bench.main(["--dataset=wine", "--method=raw,hscl", "--epochs=2", "--output=out"]) == 0

for arguments, extra in {
    ("--dataset=MUTAG",): "graphs", ("--dataset=Cora",): "graphs", ("--dataset=digits",): "images",
    ("--dataset=BACE", "--domain=molecules"): "molecules",
    (*command, "--seeds=3", "--jobs=2"): "cluster",
}.items():  # fmt: skip
    refused_command(extra, "bench", *arguments)
refused_command("tune", "tune", *IRIS)
refused_command("molecules", "pretrain", "--dataset=MOSES", "--subset=100")
