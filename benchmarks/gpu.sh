#!/usr/bin/env bash
# What only a machine with a CUDA device can show, in parts of ten minutes:
#   benchmarks/gpu.sh DIR [PART ...]
# DIR holds CIFAR10.npz and CIFAR100.npz, or the folders that their publisher packs, NAME.zip files
# of the TUDataset collection, and moses/train.csv.gz. Without parts all are run, one after the
# other, until one is not finished. A part is stopped after MINUTES (10), and the same command goes
# on where it was: runs have checkpoints, finished runs and measurements are not made again. EPOCHS
# (200) belongs to the images, and OUT (DIR) is the folder that everything is written to. PYTHON is
# .venv/bin/python, or python3 where there is none: the package need not be installed.
#
#   tests       the tests marked gpu
#   step        a step of ResNet-50 against its network alone, in bf16: plain, compiled, and with
#               CUDA graphs
#   losses      InfoNCE of up to 262,144 embeddings
#   methods     the loss of every method
#   ensembles   seconds of a step, and memory, by the number of models
#   tuning      a search, batched and one by one
#   cifar10     Table I: ResNet-50, compiled, with its page
#   cifar100    the same of CIFAR100
#   time-to-94  seconds until neighbours of scl and hscl are right for 94 % of CIFAR10
#   table2      Table II from end to end, under either protocol, timed, with a page of each
#   moses       an encoder of molecules on all of MOSES
#   recipe      our recipe on five sets of graphs, timed, with its page
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
data="${1:?the folder with the data}"
shift
minutes="${MINUTES:-10}"
epochs="${EPOCHS:-200}"
out="${OUT:-$data}"
[ -x .venv/bin/python ] && usual=.venv/bin/python || usual=python3
python="${PYTHON:-$usual}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$out"
TIMEFORMAT="%0R s"

# Ctrl-C after the minutes of a part: the package saves a checkpoint and says so.
limited() {
  timeout --signal=INT --kill-after=60 "${minutes}m" "$python" "$@" || {
    local status=$?
    ((status == 124 || status == 130)) && echo "$part: time is up; the same command goes on"
    return "$status"
  }
}

# A benchmark whose table is there already is done; an unfinished one goes on.
measured() {
  local script=$1 table=$2
  shift 2
  if [ -e "$out/$table" ]; then
    echo "$part: $out/$table is there; remove it to measure again"
  else
    limited "benchmarks/$script" --device cuda --out "$out/$table" "$@"
  fi
}

images() {
  local name=$1 page=$2
  shift 2
  limited -m gcl_hard.bench --dataset "$name" --data-dir "$data" --epochs "$epochs" \
    --precision bf16 --device cuda --checkpoint-minutes 2 \
    --output "$out/tables" --report "$page" "$@"
}

table2() {
  time limited -m gcl_hard.bench --table 2 --protocol "$1" --seeds 10 --device cuda \
    --method ucl,hucl,scl,hscl --select false --data-dir "$data" --output "$out/table-$1" \
    --report "$out/results-table-2-$1.md"
}

run() {
  case $part in
    tests) limited -m pytest -m gpu -p no:cacheprovider tests ;;
    step)
      measured images.py images-gpu.csv --encoder resnet50 --precision bf16
      measured images.py images-gpu-compiled.csv --encoder resnet50 --precision bf16 --compile
      measured images.py images-gpu-graphs.csv --encoder resnet50 --precision bf16 \
        --compile reduce-overhead
      ;;
    losses) measured losses.py losses-gpu.csv --sizes 2048,8192,65536,262144 --peers-up-to 16384 ;;
    methods) measured methods.py methods-gpu.csv ;;
    ensembles) measured ensembles.py ensembles-gpu.csv --data-dir "$data" ;;
    tuning) measured tuning.py tuning-gpu.csv --pairs 3 --data-dir "$data" ;;
    cifar10 | cifar100)
      images "${part^^}" "$out/results-$part.md" --seeds 1 --monitor-every 5 --beta 1 --compile true \
        --method ucl,hucl,scl,hscl,supervised,majority,pixels,untrained
      ;;
    time-to-94)
      images CIFAR10 "$out/results-cifar10-time.md" --seeds 1 --monitor-every 1 --beta 1 \
        --method scl,hscl --encoder resnet18 --output "$out/time-to-94"
      ;;
    table2) table2 transductive && table2 inductive ;;
    moses)
      time limited -m gcl_hard.pretrain --dataset MOSES --data-dir "$data" --device cuda \
        --layers 5 --dim 300 --epochs 10 --batch-size 1024 --jobs 8 --checkpoint-minutes 2 \
        --output "$out/moses.pt"
      ;;
    recipe)
      time limited -m gcl_hard.bench --recipe best --device cuda --data-dir "$data" \
        --dataset MUTAG,ENZYMES,PTC,IMDB-B,IMDB-M --method ucl,hucl,scl,hscl,untrained,wl-oa \
        --seeds 100,101,102,103,104 --output "$out/table-recipe" --report "$out/results-recipe.md"
      ;;
    *)
      echo "unknown part $part; the parts are at the head of $0" >&2
      return 2
      ;;
  esac
}

(($#)) || set -- tests step losses methods ensembles tuning cifar10 cifar100 time-to-94 table2 \
  moses recipe
for part in "$@"; do
  echo "== $part"
  run
done
