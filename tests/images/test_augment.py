"""Views against torchvision's functions, image by image with the drawn numbers; and seeds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

from gcl_hard.errors import InputError
from gcl_hard.images import augment
from gcl_hard.images.augment import ViewRecipe, Views, channel_statistics, resized_crop

OFF = {"crop": 1.0, "flip": 0.0, "jitter": 0.0, "grayscale": 0.0, "blur": 0.0, "noise": 0.0}


def views_of(size: int = 16, **on: float) -> Views:
    """Views with all transforms off but these, on the 0..1 scale."""
    return Views(ViewRecipe(**{**OFF, **on}), size=size, mean=(0, 0, 0), std=(1, 1, 1))


def pictures(n: int, height: int = 16, width: int | None = None, seed: int = 0) -> Tensor:
    shape = (n, 3, height, width or height)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


def near_share(count: int, n: int, p: float) -> bool:
    """Whether a count is within five standard errors of n p."""
    return abs(count - n * p) < 5 * (n * p * (1 - p)) ** 0.5


@pytest.mark.parametrize(
    ("height", "width", "size"), [(8, 8, 8), (32, 32, 32), (32, 32, 9), (20, 31, 24), (48, 40, 16)]
)
def test_a_resized_crop_is_torchvisions(height: int, width: int, size: int) -> None:
    rng = np.random.default_rng(0)
    w, h = rng.integers(1, width + 1, 12), rng.integers(1, height + 1, 12)
    w[0], h[0] = width, height
    left, top = rng.integers(0, width - w + 1), rng.integers(0, height - h + 1)
    images = pictures(12, height, width) / 255
    boxes = torch.from_numpy(np.stack([left, top, w, h], axis=1))
    expected = torch.stack([
        tv.resized_crop(image, y, x, b, a, [size, size], antialias=True)
        for image, (x, y, a, b) in zip(images, boxes.tolist(), strict=True)
    ])  # fmt: skip
    torch.testing.assert_close(resized_crop(images, boxes, size), expected, atol=2e-6, rtol=0)


def test_crops_are_whole_boxes_of_the_shares_and_shapes_asked_for() -> None:
    """Two channels hold each pixel's place, so that a view says which box it is."""
    n, side = 2000, 64
    images = pictures(n, side)
    images[:, 0] = torch.arange(side)
    images[:, 1] = torch.arange(side).unsqueeze(1)
    view = views_of(side, crop=0.2)(images, seed=0) * 255
    place = {"w": view[:, 0].mean(1), "h": view[:, 1].mean(2)}
    middle = side // 2
    extent = {k: ((v[:, middle] - v[:, middle - 1]) * side).round() for k, v in place.items()}
    first = {k: (v.mean(1) - (extent[k] - 1) / 2).round() for k, v in place.items()}

    boxes = torch.stack([first["w"], first["h"], extent["w"], extent["h"]], dim=1).int()
    for i, (left, top, w, h) in enumerate(boxes[:40].tolist()):
        whole = tv.resized_crop(images[i] / 255, top, left, h, w, [side, side], antialias=True)
        torch.testing.assert_close(view[i] / 255, whole, atol=1e-5, rtol=0)

    share = extent["w"] * extent["h"] / side**2
    ratio = extent["w"] / extent["h"]
    assert 0.19 < share.min() < 0.22
    assert 0.95 < share.max() <= 1
    assert 0.70 < ratio.min() < 0.78
    assert 1.28 < ratio.max() < 1.40
    assert abs(ratio.log().mean()) < 0.02
    assert len(boxes.unique(dim=0)) > 0.9 * n


def drawn(views: Views, name: str) -> dict[str, Tensor]:
    (transform,) = [t for t in views._transforms if type(t).__name__ == name]
    return transform._params


def by_torchvision(views: Views, images: Tensor) -> Tensor:
    """The last views that `views` made, image by image from what kornia drew, in HCL's order."""
    recipe, kernel = views.recipe, max(3, views.size // 10 | 1)
    transformed = []
    for i, picture in enumerate(images / 255):
        image = picture
        if recipe.flip and drawn(views, "RandomHorizontalFlip")["batch_prob"][i]:
            image = tv.horizontal_flip(image)
        if recipe.jitter and drawn(views, "ColorJitter")["batch_prob"][i]:
            numbers = drawn(views, "ColorJitter")
            for step in numbers["order"].tolist():
                change: Callable[[Tensor, float], Tensor] = (
                    tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue
                )[step]  # fmt: skip
                name = change.__name__.removeprefix("adjust_")
                image = change(image, float(numbers[f"{name}_factor"][i]))
        if recipe.grayscale and drawn(views, "RandomGrayscale")["batch_prob"][i]:
            image = tv.rgb_to_grayscale(image, num_output_channels=3)
        if recipe.blur and drawn(views, "RandomGaussianBlur")["batch_prob"][i]:
            sigma = float(drawn(views, "RandomGaussianBlur")["sigma"][i])
            image = tv.gaussian_blur(image, [kernel, kernel], [sigma, sigma])
        transformed.append(image)
    return torch.stack(transformed)


@pytest.mark.parametrize(
    ("size", "on"),
    [
        (16, {"flip": 0.5}),
        (16, {"jitter": 0.4}),
        (16, {"jitter": 1.0}),
        (16, {"grayscale": 0.5}),
        (8, {"blur": 0.5}),
        (64, {"blur": 1.0}),
        (96, {"blur": 0.5}),
        (32, {"flip": 0.5, "jitter": 0.4, "grayscale": 0.2, "blur": 0.5}),
    ],
)
def test_views_are_what_torchvision_makes_of_the_same_numbers(
    size: int, on: dict[str, float]
) -> None:
    views, images = views_of(size, **on), pictures(16, size)
    for seed in range(3):
        view = views(images, seed=seed)
        # torchvision rounds the weight of red in grey to four digits
        torch.testing.assert_close(view, by_torchvision(views, images), atol=5e-4, rtol=0)
        assert (view - images / 255).abs().amax(dim=(1, 2, 3)).gt(1e-2).any()


def test_flips_greys_and_blurs_come_as_often_as_asked() -> None:
    n, images = 3000, pictures(3000, 6)
    flipped = (views_of(6, flip=0.3)(images, seed=1) * 255).round().byte()
    mirrored = (flipped == images.flip(3)).all(dim=(1, 2, 3))
    assert (mirrored | (flipped == images).all(dim=(1, 2, 3))).all()
    assert near_share(int(mirrored.sum()), n, 0.3)

    grey = views_of(6, grayscale=0.3)(images, seed=1)
    colourless = (grey - grey.mean(1, keepdim=True)).abs().amax(dim=(1, 2, 3)) < 1e-6
    assert near_share(int(colourless.sum()), n, 0.3)

    views = views_of(6, blur=0.3)
    # a σ close to 0.1 changes nothing that float32 holds: 4 % of the blurred, within the error
    changed = (views(images, seed=1) - images / 255).abs().amax(dim=(1, 2, 3)) > 1e-6
    assert near_share(int(changed.sum()), n, 0.3)
    sigma = drawn(views, "RandomGaussianBlur")["sigma"]
    assert 0.1 <= sigma.min() < 0.11
    assert 1.99 < sigma.max() <= 2


@pytest.mark.parametrize("others", [{}, {"crop": 0.08, "grayscale": 1.0, "blur": 1.0}])
def test_noise_is_normal_every_values_own_and_added_last(others: dict[str, float]) -> None:
    image = pictures(1).expand(500, -1, -1, -1)
    noisy, clean = (views_of(**others, **more)(image, seed=0) for more in ({"noise": 0.1}, {}))
    noise = (noisy - clean).flatten(1)
    assert abs(noise.mean()) < 5 * 0.1 / noise.numel() ** 0.5
    assert noise.std() == pytest.approx(0.1, rel=0.01)
    assert noise.abs().lt(0.2).float().mean() == pytest.approx(0.9545, abs=0.002)
    assert torch.corrcoef(noise[:8]).fill_diagonal_(0).abs().max() < 5 / noise.shape[1] ** 0.5


def test_a_recipe_with_everything_off_is_the_plain_image_and_draws_nothing() -> None:
    views, images = views_of(16), pictures(4, 20, 24)
    assert torch.equal(views(images, seed=0), views.plain(images))
    assert len(views._transforms) == 1


@pytest.mark.parametrize(("height", "width", "size"), [(16, 16, 16), (40, 40, 16), (12, 20, 16)])
def test_plain_images_are_torchvisions_resize_and_normalize(
    height: int, width: int, size: int
) -> None:
    images, mean, std = pictures(4, height, width), (0.5, 0.4, 0.3), (0.2, 0.3, 0.1)
    views = Views(ViewRecipe(), size=size, mean=mean, std=std)
    resized = tv.resize(images / 255, [size, size], antialias=True)
    expected = tv.normalize(resized, list(mean), list(std))
    torch.testing.assert_close(views.plain(images), expected, atol=1e-5, rtol=0)


def test_the_recipe_is_that_of_the_published_code_and_views_are_normalised() -> None:
    published = ViewRecipe(crop=0.08, flip=0.5, jitter=0.4, grayscale=0.2, blur=0.5, noise=0)
    assert ViewRecipe() == published
    images, mean, std = pictures(4, 32), (0.5, 0.4, 0.3), (0.2, 0.3, 0.1)
    raw = Views(ViewRecipe(), size=32, mean=(0, 0, 0), std=(1, 1, 1))(images, seed=3)
    view = Views(ViewRecipe(), size=32, mean=mean, std=std)(images, seed=3)
    expected = tv.normalize(raw, list(mean), list(std))
    torch.testing.assert_close(view, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("on", [{name: 0.5} for name in OFF])
def test_one_seed_gives_the_same_bits_and_another_others(on: dict[str, float]) -> None:
    views, images = views_of(**on), pictures(8)
    first = views(images, seed=2**64 - 1)
    torch.manual_seed(5)
    assert torch.equal(views(images, seed=2**64 - 1), first)
    assert torch.equal(views_of(**on)(images, seed=2**64 - 1), first)
    assert not torch.equal(views(images, seed=0), first)


@pytest.mark.parametrize("recipe", [ViewRecipe(), ViewRecipe(noise=0.1)])
def test_the_global_random_state_is_left_as_it_was(recipe: ViewRecipe) -> None:
    views = Views(recipe, size=16, mean=(0, 0, 0), std=(1, 1, 1))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    views(pictures(4), seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    views._transforms = (lambda view: view[:, :, :, 99],)
    with pytest.raises(IndexError):
        views(pictures(4), seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_get_the_views_of_their_seeds_and_leave_the_global_random_state() -> None:
    views, images = views_of(crop=0.3, flip=0.5, jitter=0.4, blur=0.5, noise=0.1), pictures(40)
    expected = [views(images, seed=s) for s in range(6)]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    with ThreadPoolExecutor(6) as pool:
        drawn = [*pool.map(lambda s: views(images, seed=s % 6), range(30))]
    assert torch.equal(torch.get_rng_state(), before)
    for i, view in enumerate(drawn):
        assert torch.equal(view, expected[i % 6])


@pytest.mark.parametrize("on", [{name: 0.5} for name in OFF])
def test_the_default_dtype_changes_no_view(on: dict[str, float]) -> None:
    images = pictures(6)
    expected = views_of(**on)(images, seed=3)
    torch.set_default_dtype(torch.float64)
    try:
        drawn = views_of(**on)(images, seed=3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert drawn.dtype == torch.float32
    torch.testing.assert_close(drawn, expected)


@pytest.mark.gpu
def test_a_gpu_makes_the_views_of_the_cpu_and_keeps_its_random_state() -> None:
    images = pictures(32, 32)
    views = Views(ViewRecipe(), size=32, mean=(0, 0, 0), std=(1, 1, 1))
    usual = views(images, seed=3)
    before = torch.cuda.get_rng_state()
    for placed in (views, views.to("cuda")):
        view = placed(images.cuda(), seed=3)
        assert view.is_cuda
        torch.testing.assert_close(view.cpu(), usual, atol=5e-3, rtol=0)
    views_of(noise=0.1)(images.cuda(), seed=3)
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.parametrize("size", [8, 32, 96])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_views_are_float32_at_every_size_under_autocast(size: int, half: torch.dtype) -> None:
    views = Views(ViewRecipe(noise=0.1), size=size, mean=(0.5,) * 3, std=(0.2,) * 3)
    images = pictures(4, size)
    usual, plain = views(images, seed=0), views.plain(images)
    with torch.autocast("cpu", dtype=half):
        view, evaluated = views(images, seed=0), views.plain(images)
    assert view.shape == (4, 3, size, size)
    assert view.dtype == evaluated.dtype == torch.float32
    assert view.isfinite().all()
    assert torch.equal(view, usual)
    assert torch.equal(evaluated, plain)


@pytest.mark.parametrize(
    "change", [{"size": 1}, {"mean": (0.5,)}, {"mean": (0.5, float("nan"), 0)}, {"std": (1, 0, 1)}]
)
def test_views_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        Views(ViewRecipe(), **{"size": 8, "mean": (0, 0, 0), "std": (1, 1, 1), **change})


@pytest.mark.parametrize(
    "images", [torch.rand(2, 3, 8, 8), pictures(2, 8)[:, 0], pictures(2, 8).permute(0, 2, 3, 1)]
)
def test_images_of_another_kind_are_refused(images: Tensor) -> None:
    for use in (
        lambda: views_of(8)(images, seed=0),
        lambda: views_of(8).plain(images),
        lambda: channel_statistics(images),
    ):
        with pytest.raises(InputError, match=r"uint8 \[B, 3, H, W\]"):
            use()


def test_statistics_are_numpys_in_any_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(50, 10, 12)
    images[:, 1] //= 5
    values = images.numpy() / 255
    expected = [values.mean(axis=(0, 2, 3)), values.std(axis=(0, 2, 3))]
    for chunk in (augment.CHUNK, 7 * images[0].numel(), 1):
        monkeypatch.setattr(augment, "CHUNK", chunk)
        for got, wanted in zip(channel_statistics(images), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_statistics_are_exact_where_the_spread_is_one_value_in_many() -> None:
    images = torch.full((64, 3, 64, 64), 255, dtype=torch.uint8)
    images[0, 0, 0, 0] = 254
    mean, std = channel_statistics(images)
    n = 64**3
    assert mean == ((255 * n - 1) / (255 * n), 1.0, 1.0)
    assert std[0] == pytest.approx((n - 1) ** 0.5 / n / 255, rel=1e-14)
    assert std[1:] == (1.0, 1.0)
