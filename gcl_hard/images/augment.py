"""Random views of images: crop, flip, colour jitter, grey, blur and noise, drawn per image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import Drawing
from gcl_hard.core.setting import Setting, declared
from gcl_hard.errors import InputError, check_at_least

JITTERED = 0.8  # probability of the colour jitter, as in SimCLR
ASPECT = (3 / 4, 4 / 3)  # range of width / height of a crop
SIGMA = (0.1, 2.0)  # range of the blur's standard deviation, in pixels
CHUNK = 2**24  # values counted at a time

Transform = Callable[[Tensor], Tensor]

_view_setting = partial(Setting, part="views", read_by=("supervised",))


@dataclass(frozen=True)
class ViewRecipe:
    """Transforms of a view, applied in the order of the fields.

    Args:
        crop: smallest share of the area that a random resized crop keeps, in (0, 1]; drawn from
            [crop, 1], the aspect ratio from [3/4, 4/3]. 1 crops nothing.
        flip: probability of a horizontal flip, in [0, 1].
        jitter: strength of the colour jitter, in [0, 2]: brightness, contrast and saturation are
            multiplied by factors from [max(0, 1 − jitter), 1 + jitter], the hue is rotated by up to
            jitter / 4 of the circle, in an order drawn once per batch. An image is jittered with
            probability 0.8. 0 is off.
        grayscale: probability of losing the colours, in [0, 1].
        blur: probability of a Gaussian blur, in [0, 1]; σ is drawn from [0.1, 2] pixels, the
            kernel is a tenth of the size, odd, at least 3.
        noise: standard deviation ≥ 0 of Gaussian noise added to every value on the 0 … 1 scale.

    Raises:
        InputError: for a value out of its range.

    Source:
        The defaults are those of HCL's and H-SCL's code (``image/utils.py``), which follows Chen
        et al. (2020), *SimCLR*, appendix A. H-SCL's text names noise in place of grey and
        blur, without its strength: ``ViewRecipe(grayscale=0, blur=0, noise=...)``.

    Example:
        >>> ViewRecipe(blur=0.0).crop
        0.08
    """

    crop: Annotated[
        float, _view_setting("smallest share of the area that a crop keeps", above=0, most=1)
    ] = 0.08
    flip: Annotated[float, _view_setting("probability of a horizontal flip", least=0, most=1)] = 0.5
    jitter: Annotated[float, _view_setting("strength of the colour jitter", least=0, most=2)] = 0.4
    grayscale: Annotated[
        float, _view_setting("probability of conversion to grey", least=0, most=1)
    ] = 0.2
    blur: Annotated[float, _view_setting("probability of a Gaussian blur", least=0, most=1)] = 0.5
    noise: Annotated[float, _view_setting("standard deviation of Gaussian noise", least=0)] = 0.0

    def __post_init__(self) -> None:
        for name, setting in declared(ViewRecipe).items():
            setting.checked(getattr(self, name))


class Views(nn.Module):
    """Random views of images, computed on their device.

    view = (transformed(image / 255) − mean) / std. The random numbers of a view depend on the seed
    and its position in the batch, not on the device (except for noise); the global random state is
    unchanged. Transforms that the recipe switches off are skipped.

    Args:
        recipe: transforms of a view.
        size: size of a view, in pixels, ≥ 2.
        mean: mean of each of the three channels, on the 0 … 1 scale.
        std: standard deviation of each channel, > 0, on the same scale; see
            :func:`channel_statistics`.

    Raises:
        InputError: for a size, mean or std that is out of range.

    Source: Chen et al. (2020), *SimCLR*, appendix A.

    Example:
        >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
        >>> views = Views(ViewRecipe(), size=32, mean=(0.5,) * 3, std=(0.5,) * 3)
        >>> views(images, seed=0).shape, views(images, seed=0).equal(views(images, seed=1))
        (torch.Size([4, 3, 32, 32]), False)
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, recipe: ViewRecipe, *, size: int, mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        check_at_least("size", size, 2)
        finite = len(mean) == len(std) == 3 and all(map(math.isfinite, (*mean, *std)))
        if not finite or min(std) <= 0:
            raise InputError(
                f"mean and std must be three finite numbers, std above 0 (1 for constant "
                f"channels), got {tuple(mean)} and {tuple(std)}"
            )
        self.recipe = recipe
        self.size = size
        for name, values in (("mean", mean), ("std", std)):
            row = torch.tensor(values, dtype=torch.float32, device="cpu").view(3, 1, 1)
            self.register_buffer(name, row, persistent=False)
        # A tuple, not a ModuleList: kornia draws on the CPU even if this module is moved, or under
        # torch.device("meta").
        with torch.device("cpu"):
            self._transforms = _transforms(recipe, size)

    def forward(self, images: Tensor, *, seed: int) -> Tensor:
        """One random view of each image.

        Args:
            images: uint8 [B, 3, H, W], on any device.
            seed: in [0, 2⁶⁴).

        Returns:
            float32 [B, 3, size, size], normalised, on the images' device.

        Raises:
            InputError: for images of another shape or dtype.
        """
        _check(images)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad(), _full_precision(images), Drawing(generator):
            view = images.float() / 255
            for transform in self._transforms:
                view = transform(view)
            return self._normalised(view)

    def plain(self, images: Tensor) -> Tensor:
        """The images for evaluation: resized if necessary, and normalised.

        Args:
            images: uint8 [B, 3, H, W], on any device.

        Returns:
            float32 [B, 3, size, size] on the images' device.

        Raises:
            InputError: for images of another shape or dtype.
        """
        _check(images)
        with torch.no_grad(), _full_precision(images):
            return self._normalised(_resized(images.float() / 255, self.size))

    def _normalised(self, images: Tensor) -> Tensor:
        mean, std = (row.to(images.device, torch.float32) for row in (self.mean, self.std))
        return (images - mean) / std


def resized_crop(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """A box of each image, resized to a square: antialiased bilinear, all images at once.

    view[o, p] = Σ_hw R[o, h] C[p, w] image[h, w]: R and C resample the rows and the columns.

    Args:
        images: float [B, C, H, W].
        boxes: [B, 4] of left, top, width, height in pixels, all inside the image.
        size: size of the result, in pixels.

    Returns:
        [B, C, size, size] of the images' dtype, as torchvision's ``resized_crop`` with antialias.

    Example:
        >>> image = torch.arange(16.0).view(1, 1, 4, 4)
        >>> resized_crop(image, torch.tensor([[1, 2, 2, 2]]), size=2)
        tensor([[[[ 9., 10.],
                  [13., 14.]]]])
    """
    left, top, width, height = boxes.to(images.device, images.dtype).unbind(1)
    across = _resampling(left, width, images.shape[3], size)
    down = _resampling(top, height, images.shape[2], size)
    return torch.einsum("bsh,bchw,bpw->bcsp", down, images, across)


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel on the 0 … 1 scale, from exact integer sums.

    mean = Σv / (255 N), std = √(N Σv² − (Σv)²) / (255 N) over the N values v of a channel.

    Args:
        images: uint8 [n, 3, H, W], n ≥ 1: the training images only.

    Returns:
        Three means and three standard deviations; 1 for a constant channel.

    Raises:
        InputError: for images of another shape or dtype.

    Example:
        >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).expand(1, 3, 2, 2))
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    """
    _check(images)
    counts = torch.zeros(3, 256, dtype=torch.int64, device=images.device)
    step = max(1, CHUNK // images[0].numel())
    for start in range(0, len(images), step):
        for c, channel in enumerate(images[start : start + step].unbind(1)):
            counts[c] += torch.bincount(channel.flatten(), minlength=256)
    values = torch.arange(256, device=images.device)
    sums = (counts * values).sum(1).tolist()
    squares = (counts * values * values).sum(1).tolist()
    n = images[:, 0].numel()
    spread = [
        math.sqrt(n * square - total * total) / (255 * n)
        for total, square in zip(sums, squares, strict=True)
    ]
    return tuple(total / (255 * n) for total in sums), tuple(std or 1.0 for std in spread)


def _check(images: Tensor) -> None:
    """InputError for anything but a batch of colour images."""
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise InputError(
            f"images must be a batch of colour images in bytes, uint8 [B, 3, H, W], got "
            f"{images.dtype} {list(images.shape)}"
        )


def _full_precision(images: Tensor) -> torch.autocast:
    return torch.autocast(images.device.type, enabled=False)


def _transforms(recipe: ViewRecipe, size: int) -> tuple[Transform, ...]:
    """The enabled transforms of a recipe."""
    from kornia import augmentation as kornia  # takes a quarter of a second

    transforms: list[Any] = []
    if recipe.flip:
        transforms.append(kornia.RandomHorizontalFlip(p=recipe.flip))
    if recipe.jitter:
        s = recipe.jitter  # ColorJitter is torchvision's; kornia's ColorJiggle adds brightness
        transforms.append(kornia.ColorJitter(s, s, s, s / 4, p=JITTERED))
    if recipe.grayscale:
        transforms.append(kornia.RandomGrayscale(p=recipe.grayscale))
    if recipe.blur:
        kernel = max(3, size // 10 | 1)
        transforms.append(kornia.RandomGaussianBlur((kernel, kernel), SIGMA, p=recipe.blur))
    noise = [partial(_noisy, std=recipe.noise)] if recipe.noise else []
    return _Crop(recipe.crop, size), *map(_in_float32, transforms), *noise


def _in_float32(transform: Any) -> Any:
    """A kornia transform with draws independent of torch's default dtype."""
    transform.set_rng_device_and_dtype(torch.device("cpu"), torch.float32)
    return transform


class _Crop:
    """kornia's crop boxes (equal to torchvision's) with our resize.

    kornia's resizes differ: ``slice`` loops over the images, ``resample`` aligns the corners of the
    box with those of the view; neither is antialiased.
    """

    def __init__(self, least: float, size: int) -> None:
        from kornia.augmentation import RandomResizedCrop

        self.size = size
        self.boxes = None
        if least < 1:
            self.boxes = _in_float32(RandomResizedCrop((size, size), (least, 1.0), ASPECT))

    def __call__(self, images: Tensor) -> Tensor:
        if self.boxes is None:
            return _resized(images, self.size)
        corners = self.boxes.generate_parameters(images.shape)["src"]
        first, last = corners[:, 0], corners[:, 2]
        return resized_crop(images, torch.cat([first, last - first + 1], dim=1), self.size)


def _noisy(images: Tensor, std: float) -> Tensor:
    """Gaussian noise drawn on the images' device; kornia draws on the CPU and copies."""
    generator = torch.Generator(images.device).manual_seed(int(torch.randint(2**62, ())))
    noise = torch.randn(images.shape, generator=generator, device=images.device, dtype=images.dtype)
    return images + std * noise


def _resized(images: Tensor, size: int) -> Tensor:
    if images.shape[2:] == (size, size):
        return images
    return nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)


def _resampling(start: Tensor, length: Tensor, n: int, size: int) -> Tensor:
    """Weights [B, size, n] that resize an interval of an axis of n pixels.

    A triangle around each new pixel's centre, as wide as a new pixel and at least an old one,
    clipped to the interval.
    """
    scale = (length / size).view(-1, 1, 1)
    old = torch.arange(n, device=start.device, dtype=start.dtype) - start.view(-1, 1, 1)
    new = torch.arange(size, device=start.device, dtype=start.dtype).view(-1, 1)
    distance = (old + 0.5 - (new + 0.5) * scale).abs() / scale.clamp(min=1)
    inside = (old >= 0) & (old < length.view(-1, 1, 1))
    weights = (1 - distance).clamp(min=0) * inside
    return weights / weights.sum(dim=2, keepdim=True)
