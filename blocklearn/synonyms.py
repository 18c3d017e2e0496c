"""Words of other libraries, and the names that mean the same here.

One table for Python, configuration files and the command line. Imports nothing of the package.
"""

from collections.abc import Iterable
from difflib import get_close_matches

GROUPS = tuple(
    group.split()
    for group in """
passes epochs n_epochs num_epochs nepochs max_epochs epoch max_iter max_iters n_iter n_iters
  num_iter iter iters iterations n_iterations num_iterations max_iterations n_passes num_passes;
block_rows batch_size batch minibatch_size mini_batch_size batchsize chunksize chunk_size
  block_size rows_per_block;
threads n_jobs num_threads n_threads nthreads nthread num_workers n_workers workers cores jobs;
seed random_state random_seed rng;
topics n_topics num_topics n_components num_components components k;
rank factors n_factors num_factors no_components latent_dim embedding_dim embedding_size dim
  n_components num_components components k;
components n_components num_components rank factors n_factors k;
rate learning_rate lr eta0 step_size learning_rate_init initial_learning_rate;
reg regularization regularisation reg_param reg_lambda lambda lambda_ l2 l2_reg weight_decay;
l1 l1_reg lasso;
l2 alpha c penalty;
alpha doc_topic_prior doc_topic_concentration;
eta topic_word_prior topic_concentration beta;
inner_iterations max_doc_update_iter max_doc_iter;
tau0 learning_offset offset tau;
kappa learning_decay decay;
link loss family objective loss_function;
intercept fit_intercept bias use_bias biases use_biases;
eval validation_data validation valid val test eval_set eval_data eval_X X_val X_test test_data
  held_out holdout heldout validation_split validation_fraction test_size;
file text texts txt jsonl documents docs corpus;
table csv tsv dataframe parquet;
train X X_train train_data training_data dataset data corpus documents docs ratings;
hooks callbacks callback;
optimizer solver optim algorithm method updater;
mixins regularizers regularizer penalties penalty;
device gpu use_gpu cuda accelerator backend;
metric metrics eval_metric scoring monitor;
patience early_stopping early_stopping_rounds early_stop n_iter_no_change;
every_passes every_epochs every_n_epochs eval_every evaluate_every eval_freq;
evaluation early_stopping early_stopping_rounds patience;
verbose verbosity progress show_progress progress_bar show_progress_bar silent disp;
quiet silent;
checkpoint checkpoint_dir checkpoint_folder checkpoints save_dir;
every_blocks save_steps save_every eval_steps;
schedule learning_rate_schedule lr_schedule scheduler power_t;
momentum nesterovs_momentum;
eps epsilon;
clip_global_norm max_grad_norm gradient_clipping clip_norm;
class_weight class_weights scale_pos_weight;
memory_limit max_memory memory;
tables precision mixed_precision amp fp16 bf16 dtype;
replicas num_replicas world_size n_gpus gpus;
out output output_dir out_dir o dest destination;
overwrite force f;
resume resume_from_checkpoint restart;
users user user_ids user_id userid u;
items item item_ids item_id itemid i;
top topn top_n n k top_k num_words num_items limit N;
skip_unknown ignore_unknown;
separator sep delimiter;
text text_column;
data input test test_data file input_file X;
targets y labels label target;
weights sample_weight sample_weights;
exclude_seen filter_already_liked_items filter_seen filter_interactions;
run model model_dir model_path model_folder run_dir;
config c config_file configuration cfg yaml;
set override overrides;
train fit learn;
predict transform infer apply inference;
evaluate test eval score validate;
inspect info describe stats summary head;
convert import ingest preprocess;
topics show_topics print_topics words terms;
factors embeddings vectors;
similar neighbours neighbors related nearest;
export dump save;
report html dashboard;
compare diff;
doctor check version selftest;
kinds models list plugins optimizers mixins;
clusters n_clusters num_clusters n_components k;
oversampling n_oversamples oversamples;
svd pca truncated_svd truncatedsvd principal_component_analysis lsa lsi latent_semantic_analysis;
gaussian_mixture gmm mixture mixture_of_gaussians gaussianmixture em bayesiangaussianmixture;
kmeans k_means mini_batch_kmeans minibatchkmeans clustering;
lda topic_model latent_dirichlet_allocation latentdirichletallocation;
als matrix_factorization matrix_factorisation mf alternating_least_squares recommender svd;
glm logistic_regression logistic linear linear_regression logreg lr regression classifier;
fm factorization_machine factorisation_machine factorization_machines libfm;
nmf non_negative_matrix_factorization nonnegative_matrix_factorization;
""".rstrip(";\n").split(";")
)
"""Words that mean the same, up to each semicolon. A name may be in several groups."""


def spelled_alike(word: str) -> str:
    """Return a word as it is compared: `n_topics` for `--n-topics`."""
    return word.lstrip("-").replace("-", "_").lower()


def meant(word: str, valid: Iterable[str]) -> str | None:
    """Return which of the names `valid` means `word`; None: the table knows none.

    >>> meant("epochs", ["passes", "seed"]), meant("--n-topics", ["topics"])
    ('passes', 'topics')
    """
    names = {spelled_alike(name): name for name in valid}
    given = spelled_alike(word)
    if given in names:
        return names[given]
    for group in GROUPS:
        alike = list(map(str.lower, group))
        if given in alike:
            for other in alike:
                if other in names:
                    return names[other]
    return None


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the name that means `word`, or else the one that is spelled most like it."""
    names = list(valid)
    near = get_close_matches(word, names, n=1)
    return meant(word, names) or (near[0] if near else None)
