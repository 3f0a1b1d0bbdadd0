"""Change one expression of the package at a time, and see whether the named tests fail.

    python benchmarks/mutants.py [--only 3,12] [--timeout SECONDS]

Every mutant is made in a temporary git worktree of HEAD; ``GCL_HARD_DATA`` is handed on. A mutant
is killed if its tests fail. The tests must pass without it, which is checked first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """An expression of gcl_hard, its replacement, and the tests that should then fail."""

    title: str
    file: str
    old: str
    new: str
    tests: str  # below tests/


# fmt: off
MUTANTS = tuple(Mutant(*fields) for fields in (
    ("InfoNCE: log weight has the wrong sign", "functional/objectives.py",
     "softplus(log_weight + log_exp", "softplus(-log_weight + log_exp",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("JSD: constant 2 log 2 is log 2", "functional/objectives.py",
     "expectation - 2 * math.log(2)", "expectation - math.log(2)",
     "losses/test_oracle.py::test_nodes_against_graphs_equal_the_loops"),
    ("JSD scale (t/m) takes the own graph's score too", "functional/fused.py",
     "scores[rows].abs().scatter_(1, batch[rows, None], 0.0)", "scores[rows].abs()",
     "losses/test_oracle.py::test_nodes_against_graphs_equal_the_loops"),
    ("debiasing divides by 1 + class prior", "functional/negatives.py",
     "rest - math.log1p(-class_prior)", "rest - math.log1p(class_prior)",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("debiased JSD is not clamped at 0", "functional/negatives.py",
     "(1 - class_prior)).clamp(min=0.0)", "(1 - class_prior))",
     "losses/test_oracle.py::test_nodes_against_graphs_equal_the_loops"),
    ("linear schedule (Eq. 4) starts one epoch late", "functional/schedules.py",
     "(epoch - 1) / (epochs - 1)", "(epoch - 1) / epochs",
     "functional/test_hardening.py::test_linear_schedule_is_equation_4"),
    ("exponential hardening forgets the temperature", "functional/hardening.py",
     "now(self.beta) / temperature", "now(self.beta)",
     "functional/test_hardening.py::test_sampler_follows_its_schedule"),
    ("relative threshold has a quota of cosines", "functional/rowwise.py",
     "below = ((ordered - least) / rows.temperature).exp_().cumsum(1)",
     "below = (ordered - least).cumsum(1)",
     "functional/test_rowwise.py::test_the_smallest_set_of_the_most_similar_reaches_the_quota"),
    ("ring leaves out one negative too many", "functional/rowwise.py",
     "(self.inner * n + 1e-9).floor().long()", "(self.inner * n).ceil().long()",
     "functional/test_rowwise.py::test_a_ring_leaves_out_the_most_similar_and_the_least"),
    ("transport forgets what it scaled rows by", "functional/rowwise.py",
     "log_p = log_p + torch.where(rows, by_row.log(), 0.0)[:, None]", "pass",
     "functional/test_rowwise.py::test_the_coupling_has_uniform_margins_and_is_a_scaled_kernel"),
    ("farthest point: near to the last positive alone", "functional/pool.py",
     "torch.maximum(nearest, cosines[rows, chosen[-1]])", "cosines[rows, chosen[-1]]",
     "functional/test_pool.py::test_each_step_is_the_best_of_all_choices"),
    ("SPACL: pooled hard positives are a term each", "functional/dense.py",
     "t = t.logsumexp(1, keepdim=True) if plan.pooled else t", "pass",
     "losses/test_synthetic.py::test_the_loss_of_hard_positives_and_filtered_negatives_is_spacls"),
    ("synthetic negatives do not count in M", "functional/dense.py",
     "n_others=self.n_others + more", "n_others=self.n_others",
     "losses/test_synthetic.py::test_synthetic_negatives_are_negatives_of_their_anchors"),
    ("mixtures with the anchor may be nearer to it than to the negative", "losses/synthetic.py",
     "share[:, self.mixed :] /= 2", "pass",
     "losses/test_synthetic.py::test_mixtures_are_of_two_of_the_hardest_admitted_negatives"),
    ("the game's weights are not what they were before it diverged", "losses/synthetic.py",
     "x.copy_(weights)", "pass",
     "losses/test_synthetic.py::test_a_game_that_diverges_is_frozen_and_training_goes_on"),
    ("streamed: a hardening of rows sees its own item", "functional/streaming.py",
     "scores = scores.masked_fill_(~others, 0.0)", "others = torch.ones_like(others)",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("threshold keeps nothing at equality (no slack for rounding)", "functional/hardening.py",
     "cosine - 4 *", "cosine + 4 *",
     "functional/test_hardening.py::test_a_threshold_of_one_keeps_equal_rows"),
    ("fused JSD backward: graphs' gradient misses their positive", "functional/fused.py",
     "batch, grad_pos[:, None] * nodes)", "batch, 0 * grad_pos[:, None] * nodes)",
     "losses/test_oracle.py::test_nodes_against_graphs_equal_the_loops"),
    ("fused JSD: slope of undetached weights lacks the rate of hardness", "functional/fused.py",
     "slope * hardness.rate if slope else None", "slope + 0 * hardness.rate if slope else None",
     "losses/test_oracle.py::test_nodes_against_graphs_equal_the_loops"),
    ("class positives include the anchor itself", "functional/dense.py",
     "positive = (labels.near | ~others) & ~is_me", "positive = labels.near | ~others",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("rest: the positive stays among its negatives", "functional/dense.py",
     "number = kept.sum(1, keepdim=True) - kept.long()", "number = kept.sum(1, keepdim=True)",
     "losses/test_drop_in.py::test_values_and_gradients_are_those_of_pytorch_metric_learning"),
    ("rest in blocks: the largest term is not set aside", "functional/exclusive.py",
     "x.scatter_(1, top, -math.inf)", "x.abs()",
     "losses/test_drop_in.py::test_a_positive_that_outweighs_all_else_leaves_exact_sums"),
    ("gathered: each process has its own gradient only", "losses/gathering.py",
     "return summed(grad)[mine].contiguous(), None", "return grad[mine].contiguous(), None",
     "distributed/test_gathering.py::test_processes_have_the_loss_of_the_joined_batch"),
    ("gathered: the gradient is that of a process's part", "losses/gathering.py",
     "world_size() * (x - x.detach())", "(x - x.detach())",
     "distributed/test_torchrun.py::test_processes_train_the_weights_of_one"),
    ("sampler admits the own class under other_labels", "losses/sampling.py",
     "others & ~same_label", "others",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("detach_weights does not detach the debiasing's weights", "functional/dense.py",
     "log_q_pos.detach()", "log_q_pos + 0.0",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("hcl of the table does not debias", "losses/methods.py",
     '"exponential", "view", True, "Robinson', '"exponential", "view", False, "Robinson',
     "losses/test_losses.py::test_it_is_warned_of_in_blocks_too"),
    ("degree scalars are standardised on held-out graphs, too", "graphs/data.py",
     "standardise(degree.unsqueeze(1), nodes)", "standardise(degree.unsqueeze(1))",
     "graphs/test_data.py::test_degree_scalars_of_a_fold_ignore_other_graphs"),
    ("a balanced batch may hold an image twice", "images/batching.py",
     "torch.cat([queue, fresh[~repeated], fresh[repeated]])", "torch.cat([queue, fresh])",
     "images/test_batching.py::test_no_balanced_batch_holds_an_image_twice"),
    ("the cosine schedule does not end at 0", "training/loop.py",
     "self.optimizer, optimisation.epochs\n", "self.optimizer, optimisation.epochs + 1\n",
     "training/test_loop.py::test_equals_adam_by_hand"),
    ("inner hold-out is drawn from all graphs, not the training fold", "graphs/protocols.py",
     "inner_holdout(fold.train, labels", "inner_holdout(np.r_[fold.train, fold.test], labels",
     "graphs/test_protocols.py::test_an_inner_encoder_sees_neither_test_fold_nor_hold_out"),
    ("train share takes one graph of a class too many", "graphs/protocols.py",
     "max(1, round(share * len(members)))", "1 + round(share * len(members))",
     "graphs/test_protocols.py::test_parts_of_a_fold_are_stratified_nested_and_leave_the_test_part"),
    ("outer folds ignore the seed", "evaluation/folds.py",
     "shuffle=True, random_state=seed", "shuffle=True, random_state=0",
     "evaluation/test_folds.py::test_same_seed_same_folds_other_seed_other_folds"),
    ("SVM: C is chosen on the test fold", "evaluation/folds.py",
     "fold.train[part.train], fold.train[part.test]", "fold.train[part.train], fold.test",
     "evaluation/test_svm.py::test_chosen_c_and_accuracies_equal_grid_search_cv"),
    ("nested grid search takes the last of several best", "evaluation/folds.py",
     "int(means.argmax())", "len(means) - 1 - int(means[::-1].argmax())",
     "evaluation/test_probes.py::test_linear_equals_a_nested_loop_over_c"),
    ("corrected t-test forgets n_test/n_train", "evaluation/significance.py",
     "(1 / len(x) + test_share)", "(1 / len(x))",
     "evaluation/test_significance.py::test_t_test_equals_a_loop_in_plain_python"),
    ("Holm is not monotone", "evaluation/significance.py",
     "max(least, (len(tested) - rank) * value)", "(len(tested) - rank) * value",
     "evaluation/test_significance.py::test_holm_equals_its_definition"),
    ("selection reads the outer scores (test folds), not the hold-outs", "experiments/choice.py",
     "record.values if record.inner else", "record.values if record else",
     "experiments/test_choice.py::test_a_result_without_validation_scores_is_open"),
    ("settings are chosen as if more were always better", "experiments/choice.py",
     "(inner if self.higher else -inner)", "inner",
     "experiments/test_choice.py::test_less_error_is_chosen_fold_by_fold_and_once"),
    ("a result of another configuration is trusted", "experiments/store.py",
     "and record.name == path.stem", "and bool(record.name)",
     "experiments/test_store.py::test_a_result_of_another_run_is_neither_trusted_nor_overwritten"),
    ("a record whose digest does not fit is trusted", "experiments/record.py",
     "if checked and digest != digest_of(content):", "if checked and not digest:",
     "experiments/test_store.py::test_another_byte_and_a_missing_end_change_no_number"),
    ("a record of another schema is read", "experiments/store.py",
     'if (version := row.get("schema_version", SCHEMA_VERSION)) != SCHEMA_VERSION',
     'if (version := row.get("schema_version", SCHEMA_VERSION)) == ""',
     "experiments/test_store.py::test_what_another_version_wrote_is_left_out_and_never_lost"),
    ("numbers of other data of the same name are reused", "experiments/runner.py",
     "return any(result.data.get(name, value) != value", "return any(False",
     "experiments/test_runner.py::test_other_graphs_of_the_same_name_do_not_meet_old_numbers"),
    ("two commands train one run: a held lock is not respected", "files/io.py",
     "yield False", "yield True",
     "experiments/test_store.py::test_a_lock_is_refused_while_another_process_holds_it_and_ends_with_that"),
    ("a killed worker's task is not done elsewhere", "experiments/engine.py",
     '.allowed-failures": TRIES - 1', '.allowed-failures": 0',
     "experiments/test_engine.py::test_what_a_killed_worker_had_is_done_elsewhere"),
    ("a task that kills all its workers is lost silently", "experiments/engine.py",
     "task.error = error\n            self._events", "task.error = None\n            self._events",
     "experiments/test_engine.py::test_a_task_that_kills_its_workers_fails_alone"),
    ("an accident in a group fails all its runs", "experiments/runner.py",
     "if len(group.locks) == 1 or", "if True or",
     "experiments/test_runner.py::test_an_accident_in_a_group_is_traced_to_its_run_and_the_others_are_done"),
    ("runs whose workers were killed do not say so", "experiments/runner.py",
     '== "KilledWorker"', '== ""',
     "experiments/test_runner.py::test_an_accident_in_a_group_is_traced_to_its_run_and_the_others_are_done"),
    ("a trial that kills workers takes its group with it", "tuning/search.py",
     "if len(candidates) > 1:  # one", "if False:  # one",
     "tuning/test_search.py::test_settings_that_kill_their_workers_fail_alone_and_say_so"),
    ("the first Ctrl-C leaves no time to save a checkpoint", "experiments/engine.py",
     "self._check_interrupt()\n        self._stopping = True",
     "self._check_interrupt()\n        raise KeyboardInterrupt",
     "experiments/test_engine.py::test_the_first_ctrl_c_lets_the_running_task_save"),
    ("ensembles hold out different graphs", "graphs/training.py",
     'return encoder.held_out.numpy().tobytes()', "return joins(encoder)",
     "graphs/test_training.py::test_on_a_cpu_the_models_of_an_ensemble_hold_out_the_same_graphs"),
    ("groups hold out different graphs", "experiments/plan.py",
     "(run.seed, run.inner) if", "run.inner if",
     "experiments/test_groups.py::test_on_a_cpu_those_train_together_that_hold_out_the_same_graphs"),
    ("trials of a dead driver are not enqueued once more", "tuning/storage.py",
     "trial.number not in repeated", "trial.number in repeated",
     "tuning/test_storage.py::test_orphans_fail_and_are_enqueued_once_more"),
    ("pruned trials are told as complete", "tuning/search.py",
     "TrialState.PRUNED if accuracy is None else TrialState.COMPLETE", "TrialState.COMPLETE",
     "tuning/test_search.py::test_pruned_trials_count"),
    ("Ctrl-C: trials at work are not given back", "tuning/search.py",
     "self._put_back()", "pass",
     "tuning/test_search.py::test_a_stopped_search_keeps_what_has_ended_and_goes_on_with_the_rest"),
    ("the outer test part is scored again at every call", "tuning/search.py",
     "best is None or str(best.number) in scores or", "best is None or",
     "test_tune.py::test_the_same_command_again_scores_nothing"),
    ("progcl takes the component of the higher mean", "functional/mixture.py",
     "key=lambda component: component.mean)", "key=lambda component: -component.mean)",
     "functional/test_mixture.py::test_the_lower_component_is_that_of_the_lower_mean"),
    ("progcl forgets the similarity", "functional/mixture.py",
     "self.mixture.log_posterior(x) + x.log()", "self.mixture.log_posterior(x)",
     "losses/test_progcl.py::test_value_and_gradient_are_those_of_the_loop"),
    ("progcl: weights have a gradient", "functional/mixture.py",
     "@torch.no_grad()\n    def log_eta", "def log_eta",
     "losses/test_progcl.py::test_value_and_gradient_are_those_of_the_loop"),
    ("progcl begins an epoch late", "functional/mixture.py",
     "epoch > before", "epoch > before + 1",
     "functional/test_mixture.py::test_epoch_e_begins_after_a_share_of_the_epochs"),
    ("progcl: a component keeps the variance of all values", "functional/mixture.py",
     "(x - mean).square()", "(x - x.mean()).square()",
     "functional/test_mixture.py::test_a_fit_is_that_of_a_slow_one"),
    ("progcl: each process fits its own mixture", "losses/loss.py",
     "(similarity,) = gather(similarity)", "pass",
     "distributed/test_gathering.py::test_processes_have_the_loss_of_the_joined_batch"),
    ("progcl: a resumed run fits again", "losses/sampling.py",
     "state[MIXTURE] = ", "_ = ",
     "losses/test_progcl.py::test_a_resumed_training_has_the_bits_of_an_undisturbed_one"),
    ("progcl: another training keeps the mixture of the last", "losses/sampling.py",
     "self._mixture = None  # a restarted training fits again", "pass",
     "losses/test_progcl.py::test_a_mixture_stays_until_training_begins_anew"),
    ("progcl under JSD is not fused before its mixture is fitted", "losses/sampling.py",
     "self.current.slope(1.0)", "self.hardening.slope(1.0)",
     "losses/test_progcl.py::test_before_epoch_e_it_is_ucl_to_the_bit"),
    ("progcl is fitted to what has no weight, too", "functional/dense.py",
     "[(log_q > -math.inf) & ~empty[:, None]]", "[scores.others]",
     "losses/test_progcl.py::test_only_negatives_with_weight_are_fitted"),
    ("half the scores: the other end of a tile gets no gradient", "functional/symmetric.py",
     "slopes[columns].addmm_(both.T, x[rows])", "pass",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("streamed: those of the own label count among the kept", "functional/streaming.py",
     "kept = t.shape[1] - barred.sum(1)", "kept = t.shape[1] - 0 * barred.sum(1)",
     "losses/test_oracle.py::test_views_equal_the_loops"),
    ("scores: further columns of the positive are candidates", "functional/scored.py",
     "others = others & ~_mask(self.repeated, self.shape)", "others = others.clone()",
     "losses/test_oracle.py::test_queries_against_candidates_equal_the_loops"),
    ("a distance at the end of the gap is a negative", "functional/labels.py",
     "~(distance > gap[1] + slack)", "~(distance > gap[1] - slack)",
     "functional/test_labels.py::test_a_gap_is_that_of_the_decimals_whatever_their_rounding"),
    ("counted JSD: a clamped anchor keeps its negatives' gradient", "functional/jsd.py",
     "to_negative = weight * (raw > 0) /", "to_negative = weight /",
     "functional/test_jsd.py::test_counted_nodes_equal_single_nodes_in_value_and_gradient"),
    ("a flipped byte of a file in the cache is not seen", "files/cached.py",
     "if stamp is None or _sha256(path / name) != digest:", "if stamp is None:",
     "files/test_locating.py::test_a_flipped_byte_of_what_was_downloaded_is_named"),
    ("of two results of a run the older stays", "experiments/store.py",
     "max(results, key=", "min(results, key=",
     "experiments/test_store.py::test_of_two_results_of_a_run_the_newer_is_its_result_and_is_compacted"),
    ("the whole lines of a torn journal are cut, too", "tuning/storage.py",
     "os.truncate(path, len(content) - len(torn))", "os.truncate(path, len(lines[0]) + 1)",
     "tuning/test_journal.py::test_wherever_the_last_write_was_cut_the_trials_before_it_stay"),
    ("trials of a killed driver are left running", "tuning/storage.py",
     "study.tell(trial.number, state=TrialState.FAIL)", "pass",
     "tuning/test_storage.py::test_orphans_fail_and_are_enqueued_once_more"),
    ("the first configuration of a search says what all read", "tuning/options.py",
     "({**first, name: value})", "(first)",
     "test_cli.py::test_what_some_trials_read_is_not_named"),
))
# fmt: on


def outcome(tree: Path, tests: Sequence[str], timeout: float) -> str:
    """Outcome of tests in a checkout: survived, killed or timed out."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--slow", "all", *(f"tests/{test}" for test in tests)]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timed out"
    if done.returncode > 2:  # neither failed nor broken at import: no such test, for one
        raise SystemExit(done.stdout + done.stderr)
    if done.returncode:
        print(done.stdout.splitlines()[-1], flush=True)
    return "killed" if done.returncode else "survived"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="numbers of mutants, comma-separated")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each mutant")
    arguments = parser.parse_args()
    wanted = [int(n) for n in arguments.only.split(",") if n] or range(len(MUTANTS))
    chosen = [(n, MUTANTS[n]) for n in wanted]
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), "HEAD"], check=True)
        try:
            tests = list(dict.fromkeys(mutant.tests for _, mutant in chosen))
            if (result := outcome(tree, tests, arguments.timeout * len(tests))) != "survived":
                raise SystemExit(f"without any mutant the tests are {result}")
            for n, (title, file, old, new, test) in chosen:
                path = tree / "gcl_hard" / file
                text = path.read_text(encoding="utf-8")
                if text.count(old) != 1:
                    raise SystemExit(f"{n}: {old!r} is {text.count(old)} times in {file}")
                path.write_text(text.replace(old, new), encoding="utf-8")
                start = time.perf_counter()
                result = outcome(tree, [test], arguments.timeout)
                path.write_text(text, encoding="utf-8")
                print(f"{n}  {result}, {time.perf_counter() - start:.0f} s  {title}", flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    main()
