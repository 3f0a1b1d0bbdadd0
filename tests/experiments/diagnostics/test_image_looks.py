"""What a look at an image encoder sees, made again from the model by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gcl_hard.experiments import image_protocol
from gcl_hard.experiments.config import ImageConfig
from gcl_hard.experiments.diagnostics import Watch, image_sampler
from gcl_hard.experiments.diagnostics import images as of_images
from gcl_hard.experiments.images import Encoding, build
from gcl_hard.images import ImageContrast, Split, Views
from tests.experiments.diagnostics import same_bits, tensors
from tests.experiments.tiny_images import Tiny, few_digits, small
from tests.reference import theory

CLASSES = 4


class Plain(Views):
    """Views that are the images themselves; remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(ImageConfig().view_recipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)
        self.made: list[tuple[Tensor, int]] = []

    def forward(self, images: Tensor, *, seed: int) -> Tensor:
        self.made.append((images, seed))
        return self.plain(images)


def numbered(n: int, labels: Tensor | None = None) -> Split:
    """Images of noise; which one it is stands in their first two pixels."""
    g = torch.Generator().manual_seed(n)
    images = torch.randint(256, (n, 3, 8, 8), generator=g, dtype=torch.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(n) // 256, torch.arange(n) % 256
    return Split(images, torch.arange(n) % CLASSES if labels is None else labels)


def ids(images: Tensor) -> Tensor:
    return 256 * images[:, 0, 0, 0].long() + images[:, 0, 0, 1].long()


def contrast(cell: ImageConfig) -> ImageContrast:
    """A model that has seen some images in training."""
    torch.manual_seed(0)
    model = ImageContrast(Tiny(), loss=cell.loss())
    with torch.no_grad():
        for seed in range(3):
            model.project(Plain().plain(numbered(20 + seed).images))
    return model


@pytest.mark.parametrize(
    ("n", "batch_size", "batches", "size"),
    [(100, 20, 5, 20), (100, 30, 3, 30), (50, 60, 1, 50), (900, 100, 5, 100), (700, 600, 1, 600)],
)
def test_views_are_of_images_and_of_others_of_their_class(
    n: int, batch_size: int, batches: int, size: int
) -> None:
    cell, split, views = ImageConfig(batch_size=batch_size), numbered(n), Plain()
    model = contrast(cell)
    sample = image_sampler(cell, split, views, torch.float32)(model)
    assert sample is not None
    ((made, _),) = views.made
    index, partners = ids(made).chunk(2)
    assert len(index) == len(set(index.tolist())) == batches * size
    assert torch.equal(split.labels[index], split.labels[partners])
    assert (index != partners).all()
    assert 2 * batches * size <= max(of_images.ANCHORS, 2 * size)

    model.eval()
    with torch.no_grad():
        normal = (split.images.float() / 255 - 0.5) / 0.5
        embedded = model.encoder(normal)
        projected = nn.functional.normalize(model.head(embedded), dim=1)
    close = torch.testing.assert_close
    assert torch.equal(sample.labels, split.labels[index])
    close(sample.z, embedded[index], rtol=1e-4, atol=1e-5)
    assert len(sample.batches) == batches
    for k, batch in enumerate(sample.batches):
        rows = slice(k * size, (k + 1) * size)
        both = torch.cat([index[rows], partners[rows]])
        close(batch.anchors, projected[both], rtol=1e-4, atol=1e-5)
        assert torch.equal(batch.anchor_labels, split.labels[both])
        assert torch.equal(batch.candidates, batch.anchors)
        assert batch.n_items == size
    close(sample.items, projected[index], rtol=1e-4, atol=1e-5)
    if size == 20:
        batch, y = sample.batches[1], split.labels[index[20:40]]
        z1, z2 = batch.anchors.double().chunk(2)
        anchors = theory.two_view_anchors(z1.tolist(), z2.tolist(), y.tolist(), 0.5)
        for i, x in enumerate(anchors):
            row = batch.scores.others[i]
            assert batch.scores.t_pos[i].item() == pytest.approx(x.g_pos, abs=1e-9)
            expected = [g for _, g in x.others]
            assert batch.scores.t[i, row].tolist() == pytest.approx(expected, abs=1e-9)
            assert batch.scores.same[i, row].tolist() == [label == x.y for label, _ in x.others]


def test_a_class_of_one_is_its_own_partner() -> None:
    labels = torch.arange(30) % 2
    labels[13] = 7
    cell, views = ImageConfig(batch_size=30), Plain()
    image_sampler(cell, numbered(30, labels), views, torch.float32)
    index, partners = ids(views.made[0][0]).chunk(2)
    assert index[index == partners].tolist() == [13]


def test_the_temperature_is_that_of_the_training() -> None:
    cell = ImageConfig(batch_size=20, temperature=0.2)
    sample = image_sampler(cell, numbered(60), Plain(), torch.float32)(contrast(cell))
    assert sample is not None
    assert {batch.scores.temperature for batch in sample.batches} == {0.2}


def test_half_precision_is_used_to_encode_and_not_to_measure() -> None:
    cell = ImageConfig(batch_size=20)
    model = contrast(cell)
    half, full = (
        image_sampler(cell, numbered(60), Plain(), precision)(model)
        for precision in (torch.bfloat16, torch.float32)
    )
    for name, part in tensors(half).items():
        whole = tensors(full)[name]
        assert part.dtype == whole.dtype
        if part.is_floating_point():
            torch.testing.assert_close(part, whole, rtol=0.1, atol=0.1)
    assert not same_bits(tensors(half), tensors(full))


@pytest.fixture
def encoding(monkeypatch: pytest.MonkeyPatch) -> Encoding:
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: Tiny())
    return build(small(), few_digits(), 3)


def test_images_and_views_are_the_same_for_all_methods_and_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_protocol, "resnet", lambda name, stem: Tiny())
    seen: list[list[Tensor]] = []
    real = ImageContrast.project

    def project(self: ImageContrast, images: Tensor) -> Tensor:
        seen[-1].append(images)
        return real(self, images)

    monkeypatch.setattr(ImageContrast, "project", project)
    data = few_digits()
    for method, seed, more in (
        ("hscl", 0, {}), ("ucl", 4, {"class_pairs": True}), ("hucl", 1, {"data_seed": 1}),
    ):  # fmt: skip
        cell = small(method, **more)
        encoding = build(cell, data, seed)
        sampler = image_sampler(cell, data.probe, encoding.views, torch.float32)
        looks = []
        for _ in range(2):
            seen.append([])
            looks.append(tensors(sampler(encoding.model)))
        assert same_bits(*looks)
    views = [torch.cat(of) for of in seen]
    for other in views[1:4]:
        assert torch.equal(views[0], other)
    assert not torch.equal(views[0], views[4])
    assert len(views[0]) == 2 * len(data.probe) == 240
    assert not torch.equal(views[0][:120], views[0][120:])


def test_a_look_leaves_the_model_and_all_generators_as_they_were(encoding: Encoding) -> None:
    model, cell = encoding.model, small()
    model.train()
    model.head.eval()
    before = {name: part.clone() for name, part in model.state_dict().items()
              if isinstance(part, Tensor)}  # fmt: skip
    modes, random = [module.training for module in model.modules()], torch.get_rng_state()
    watch = Watch(2, lambda: image_sampler(cell, few_digits().probe, encoding.views, torch.float32))
    for epoch in (1, 2):
        watch.look(epoch, model, model.loss.sampler.current)
    assert [look["anchors"] for look in watch.looks] == [240, 240]
    assert same_bits(before, {k: v for k, v in model.state_dict().items() if k in before})
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    assert all(part.grad is None and part.requires_grad for part in model.parameters())


@pytest.mark.parametrize("where", ["encoder", "head"])
def test_what_is_not_finite_gives_an_empty_look(encoding: Encoding, where: str) -> None:
    model, cell = encoding.model, small()
    with torch.no_grad():
        next(getattr(model, where).parameters()).fill_(float("nan"))
    sampler = image_sampler(cell, few_digits().probe, encoding.views, torch.float32)
    assert sampler(model) is None
