from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.images.augment import ViewRecipe as ViewRecipe
from gcl_hard.images.augment import Views as Views
from gcl_hard.images.augment import channel_statistics as channel_statistics
from gcl_hard.images.batching import ViewPair as ViewPair
from gcl_hard.images.batching import ViewPairs as ViewPairs
from gcl_hard.images.batching import epoch_batches as epoch_batches
from gcl_hard.images.datasets import ImageSet as ImageSet
from gcl_hard.images.datasets import Split as Split
from gcl_hard.images.datasets import load_folder as load_folder
from gcl_hard.images.datasets import load_images as load_images
from gcl_hard.images.models import ImageClassifier as ImageClassifier
from gcl_hard.images.models import ImageContrast as ImageContrast
from gcl_hard.images.models import fast_net as fast_net
from gcl_hard.images.models import image_encoder as image_encoder
from gcl_hard.images.models import projection_head as projection_head
from gcl_hard.images.models import resnet as resnet
from gcl_hard.images.models import stem_for as stem_for

Layout = Literal["npz", "torchvision", "folders", "classes"]

class Known(NamedTuple):
    n_train: int
    n_test: int
    n_classes: int
    side: int
    folder: str = ""
    url: str = ""
    checksum: str = ""
    layout: Layout = "torchvision"

KNOWN: dict[str, Known]

def canonical_name(name: str) -> str: ...
def has_dataset(name: str, data_dir: str | Path | None = None) -> bool: ...
def is_misspelt(name: str) -> bool: ...
def in_folder(folder: Path, name: str) -> Path | None: ...
