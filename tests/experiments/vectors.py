"""A domain that the package does not know: vectors with labels, an MLP, a logistic probe."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import gcl_hard.experiments as of
from gcl_hard import ContrastiveLoss
from gcl_hard.io import digest_of_arrays
from gcl_hard.training.loop import train

BASELINES = ("raw", "untrained")


@of.configuration
class VectorConfig(of.RunConfig):
    """The settings of experiments on vectors."""

    domain: ClassVar[str] = "vectors"
    baselines: ClassVar[tuple[str, ...]] = BASELINES
    baseline_protocol: ClassVar[str] = "split"

    dataset: Annotated[str, of.Setting("wine, iris or digits", "data", several=True)] = "wine"
    method: Annotated[str, of.method_setting(BASELINES)] = "hscl"
    protocol: Annotated[str, of.Setting("split: a third is for testing", "split")] = "split"
    noise: Annotated[
        float,
        of.Setting("deviation of the noise of views", "views", least=0, symbol="σ", several=True,
                   chosen=True, space=(0.01, 1.0, "log")),
    ] = 0.3  # fmt: skip
    width: Annotated[
        int, of.Setting("width of the MLP", "encoder", least=1, read_by=("untrained",))
    ] = 16


class Vectors(NamedTuple):
    """Standardised vectors and labels, and the ids of those to train and to test on."""

    x: NDArray[Any]
    y: NDArray[Any]
    train: NDArray[Any]
    test: NDArray[Any]


class TwoNoisyViews(nn.Module):
    """The loss of an encoder on two noisy views of a batch."""

    def __init__(self, encoder: nn.Module, loss: ContrastiveLoss, noise: float, seed: int) -> None:
        super().__init__()
        self.encoder, self.loss, self.noise = encoder, loss, noise
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        a, b = (torch.randn(x.shape, generator=self.generator) * self.noise for _ in range(2))
        loss: Tensor = self.loss(self.encoder(x + a), self.encoder(x + b), y)
        return loss


class VectorExperiment(of.Experiment[VectorConfig, Vectors]):
    """Experiments on vectors."""

    def load(self, config: VectorConfig, context: of.RunContext, own: Any = None) -> Vectors:
        x, y = getattr(datasets, f"load_{config.dataset}")(return_X_y=True)
        fit, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=0)
        return Vectors((x - x[fit].mean(0)) / (x[fit].std(0) + 1e-9), y, fit, test)

    def facts(self, data: Vectors) -> dict[str, Any]:
        return {"n_test": len(data.test), "digest": digest_of_arrays(*data)}

    def train_run(
        self, run: of.Run, data: Vectors, context: of.RunContext, report: of.Report
    ) -> of.TrainedRun:
        config, x = run.config, torch.from_numpy(data.x).float()
        with of.seeded_weights(run.seed, 0) as seed:
            layers = nn.Linear(x.shape[1], config.width), nn.ReLU(), nn.Linear(config.width, 8)
        encoder, y, losses = nn.Sequential(*layers), torch.from_numpy(data.y), list[float]()
        if config.encoders:
            ids, orders = self._part(run, data).train, np.random.default_rng(run.seed)

            def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
                for batch in torch.from_numpy(orders.permutation(ids)).split(config.batch_size):
                    yield x[batch], y[batch]

            model = TwoNoisyViews(encoder, config.loss(seed), config.noise, seed)
            losses = train(
                model, batches, config.optimisation(), setting=str(run),
                on_epoch=lambda epoch, loss: report(run, epoch / config.epochs, loss),
            )  # fmt: skip
        z = data.x if config.method == "raw" else encoder(x).detach().numpy()
        return of.TrainedRun(run, tuple(losses[-1:]), embeddings=z)

    def score(self, trained: of.TrainedRun, data: Vectors, context: of.RunContext) -> of.Scored:
        z, part = trained.embeddings, self._part(trained.run, data)
        probe = LogisticRegression(max_iter=1000).fit(z[part.train], data.y[part.train])
        return of.Scored((of.Tested(part.test, data.y[part.test], probe.predict(z[part.test])),))

    def _part(self, run: of.Run, data: Vectors) -> Vectors:
        """The data of a run; an inner one is tested on a fifth of the training part."""
        if not run.inner:
            return data
        fit, test = train_test_split(data.train, test_size=0.2, random_state=run.seed)
        return data._replace(train=fit, test=test)


of.register(VectorConfig, VectorExperiment)
