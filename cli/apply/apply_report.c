/* apply_report.c - prints the lines of code that follow a plan in PyTorch, torch_remat, Hugging Face, Megatron, DeepSpeed,
 * Paddle and JAX. Comments in this code state peak and time. */
#include "cli/apply/apply.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_source.h"
#include "formats/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "memplan/solver.h"
#include "planner/segments/module_schedule.h"
#include "planner/segments/modules.h"

/* ---- PyTorch ---- */

/* True if some recomputed operator also writes a static storage, such as running statistics, so that recomputation changes it
 * twice. */
static bool writes_again(const mp_modules *m, const bool *chosen)
{
    for (int k = 0; k < m->n_calls; k++)
        for (int p = m->calls[k].first; chosen[m->calls[k].module] && p < m->calls[k].again_end; p++) {
            const mp_alternative *alternative = &m->graph->nodes[m->node[p]].alternatives[0];
            for (size_t i = 0; i < alternative->n_writes; i++)
                if (m->graph->storages[alternative->writes[i]].kind == MP_KIND_BUFFER) return true;
        }
    return false;
}

/* True if some chosen module has no parameters. In PyTorch such a module (ReLU) may overwrite its input (inplace=True), which
 * checkpointing does not allow. */
static bool may_be_in_place(const mp_modules *m, const bool *chosen)
{
    for (int k = 0; k < m->n_calls; k++) {
        bool has_parameters = false;
        for (int p = m->calls[k].first; p < m->calls[k].end; p++) {
            const mp_alternative *alternative = &m->graph->nodes[m->node[p]].alternatives[0];
            for (size_t i = 0; i < alternative->n_reads; i++)
                has_parameters |= m->graph->storages[alternative->reads[i]].kind == MP_KIND_PARAMETER;
        }
        if (chosen[m->calls[k].module] && !has_parameters) return true;
    }
    return false;
}

/* How the printed Python code recomputes a module in backward. */
typedef struct checkpointer {
    /* Python code: the name of the function that recomputes, and the call of a module that is wrapped in it */
    const char *function, *wrapped;
    bool is_torchs;
} checkpointer;

static const checkpointer by_torch = {"torch.utils.checkpoint",
                                      "functools.partial(checkpoint, module.forward, use_reentrant=False)", true};
static const checkpointer by_remat = {"torch_remat.checkpoint", "torch_remat.checkpoint(region_name=name)(module.forward)",
                                      false};

static void print_wrapped(const applied *x, const checkpointer *by, const bool *chosen)
{
    print_to(x->to, by->is_torchs ? "import functools\n\nfrom torch.utils.checkpoint import checkpoint\n\n"
                                  : "import torch_remat\n\n");
    print_to(x->to, "for name in [\n");
    for (int m = 0; m < x->modules->n; m++)
        if (chosen[m]) applied_list(x, applied_module(x, m));
    print_to(x->to, "]:\n    module = model.get_submodule(name)\n");
    if (may_be_in_place(x->modules, chosen))
        print_to(x->to, "    if getattr(module, \"inplace\", False):\n"
                        "        module.inplace = False  # the second run needs its input\n");
    print_to(x->to, "    module.forward = %s\n", by->wrapped);
    if (writes_again(x->modules, chosen))
        print_to(x->to, "# Some of these modules update their buffers (running statistics) twice per step.\n");
    if (!by->is_torchs)
        print_to(x->to, "# Modules are recomputed to their ends. Dropout in them would draw other numbers: pass\n"
                        "# recompute_state_hooks= with the generators' state.\n");
}

static void print_pytorch(applied *x, const checkpointer *by, const mp_plan *plan, const bool *chosen)
{
    int n = 0;
    for (int m = 0; m < x->modules->n; m++) n += chosen[m];
    applied_head(x, mp_text("%d module%s in %s", n, n == 1 ? "" : "s", by->function), plan->peak_bytes, plan->ticks);
    if (n) print_wrapped(x, by, chosen);
    const double most = (double)(x->plan->baseline_peak_bytes - x->plan->static_bytes);
    const double share = (double)(x->budget_bytes - x->plan->static_bytes) / most; /* fraction of the non-static memory */
    if (by->is_torchs && most > 0)
        print_to(x->to, "# With torch.compile instead:\n# torch._functorch.config.activation_memory_budget = %.2f\n",
                 share < 1 ? floor(100 * share) / 100 : 1);
}

/* Prints a plan in which whole modules are wrapped in torch.utils.checkpoint: the user's plan if it is of this kind, otherwise
 * the best such plan within its budget. */
static mp_status apply_pytorch(applied *x, const checkpointer *by)
{
    const mp_request request = {.graph = x->graph, .budget_bytes = x->budget_bytes, .own = &mp_modules_solver};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    bool is_one = false;
    bool *chosen = x->chosen;
    const mp_plan *plan = x->plan;
    MP_CHECK(mp_module_schedule_read(x->modules, plan->steps, plan->n_steps, chosen, &is_one, x->err));
    if (!is_one) {
        MP_CHECK(mp_solve(&request, &answer, x->err));
        if (!answer.plan)
            return applied_too_coarse(x, "the smallest peak of checkpoints around modules is", answer.smallest->peak_bytes);
        plan = answer.plan;
        MP_CHECK(mp_module_schedule_read(x->modules, plan->steps, plan->n_steps, chosen, &is_one, x->err));
    }
    print_pytorch(x, by, plan, chosen);
    return MP_OK;
}

/* ---- frameworks that checkpoint the first blocks of a network ---- */

static void print_huggingface(const applied *x, const blocks *b, int k)
{
    const char *name = applied_module(x, b->module[0]);
    const int digits = (int)strlen(x->modules->modules[b->module[0]].name) - b->prefix, prefix = (int)strlen(name) - digits;
    char text[APPLIED_TEXT_MAX];
    print_to(x->to, "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
    if (k == b->n) return;
    if (prefix > 1 && name[prefix - 1] == '.') {
        print_to(x->to, "for block in model.get_submodule(\"%s\")[%d:]:\n", applied_quoted(name, prefix - 1, false, text), k);
        print_to(x->to, "    block.gradient_checkpointing = False\n");
        return;
    }
    print_to(x->to, "for k in range(%d, %d):\n", k, b->n);
    print_to(x->to, "    model.get_submodule(f\"%s{k}\").gradient_checkpointing = False\n",
             applied_quoted(name, prefix, true, text));
}

static void print_megatron(const applied *x, const blocks *b, int k)
{
    (void)b;
    print_to(x->to, "--recompute-granularity full --recompute-method block --recompute-num-layers %d\n", k);
}

static void print_deepspeed(const applied *x, const blocks *b, int k)
{
    print_to(x->to, "import functools\n\nimport deepspeed\n\nfor name in [\n");
    for (int i = 0; i < k; i++) applied_list(x, applied_module(x, b->module[i]));
    print_to(x->to, "]:\n    module = model.get_submodule(name)\n");
    print_to(x->to,
             "    module.forward = functools.partial(deepspeed.checkpointing.non_reentrant_checkpoint, module.forward)\n");
    print_to(x->to, "# In the configuration, for contiguous_memory_optimization only: \"number_checkpoints\": %d\n", k);
}

static void print_wrapped_blocks(const applied *x, const blocks *b, int k, const checkpointer *by)
{
    for (int m = 0; m < x->modules->n; m++) x->chosen[m] = false;
    for (int i = 0; i < k; i++) x->chosen[b->module[i]] = true;
    print_wrapped(x, by, x->chosen);
}

static void print_torch_blocks(const applied *x, const blocks *b, int k)
{
    print_wrapped_blocks(x, b, k, &by_torch);
}

static void print_remat_blocks(const applied *x, const blocks *b, int k)
{
    print_wrapped_blocks(x, b, k, &by_remat);
}

typedef void (*block_printer)(const applied *x, const blocks *b, int k);

static mp_status apply_blocks(applied *x, block_printer print)
{
    MP_CLEARED_BY(blocks_free) blocks b = {0};
    int64_t peak_bytes, ticks, all_peak_bytes, all_ticks;
    int k;
    MP_CHECK(blocks_find(x->modules, &b, x->err));
    MP_CHECK(blocks_fewest(&b, x->budget_bytes, &k, &peak_bytes, &ticks, x->err));
    if (k < 0) return applied_too_coarse(x, "with every block checkpointed the peak is", peak_bytes);
    MP_CHECK(blocks_judge(&b, b.n, NULL, &all_peak_bytes, &all_ticks, x->err));
    applied_head(x, mp_text("the first %d of %d blocks (%.100s, ...) checkpointed", k, b.n, applied_module(x, b.module[0])),
                 peak_bytes, ticks);
    print_to(x->to, "#   all blocks: ");
    applied_cost(x, all_peak_bytes, all_ticks);
    fputc('\n', x->to);
    applied_origin(x);
    if (k > 0)
        print(x, &b, k);
    else
        print_to(x->to, "# No block has to be checkpointed.\n");
    return MP_OK;
}

/* ---- frameworks that accept a list of tensors to keep ---- */

static const char *tensor_name(const mp_graph *graph, int storage)
{
    const mp_storage *row = &graph->storages[storage];
    return row->n_tensors ? row->tensors[0] : row->name;
}

/* Removes each tensor from a list of checkpoints if peak and time are not higher without it. */
static mp_status shorten(const applied *x, int *list, size_t *n)
{
    int64_t peak_bytes, ticks, peak, time;
    MP_CHECK(mp_segments_on(x->graph, list, *n, &peak_bytes, &ticks, x->err));
    for (size_t k = *n; k-- > 0;) {
        const int left_out = list[k];
        memmove(list + k, list + k + 1, (*n - k - 1) * sizeof *list);
        MP_CHECK(mp_segments_on(x->graph, list, *n - 1, &peak, &time, x->err));
        if (peak <= peak_bytes && time <= ticks) {
            peak_bytes = peak;
            ticks = time;
            --*n;
            continue;
        }
        memmove(list + k + 1, list + k, (*n - k - 1) * sizeof *list);
        list[k] = left_out;
    }
    return MP_OK;
}

static void print_paddle(const applied *x, const int *list, size_t n)
{
    print_to(x->to,
             "# For static graphs; start Python with FLAGS_enable_pir_api=0, which this optimizer needs since Paddle 3.\n");
    print_to(x->to, "optimizer = paddle.incubate.optimizer.RecomputeOptimizer(optimizer)\noptimizer._set_checkpoints([\n");
    for (size_t k = 0; k < n; k++) applied_list(x, tensor_name(x->graph, list[k]));
    print_to(x->to, "])\n");
    if (x->architecture)
        print_to(x->to,
                 "# The names are memplan's; 'memplan graph' lists the operators, to find these values in your program.\n");
    else if (x->workload->model)
        print_to(x->to, "# The names are the model file's; a program built by hand may call its variables otherwise.\n");
}

static void print_jax(const applied *x, const int *list, size_t n)
{
    print_to(x->to, "# Name these values where they are made: jax.ad_checkpoint.checkpoint_name(value, \"name\").\n");
    print_to(x->to, "# memplan counts recomputation segment by segment; XLA chooses its own order.\n");
    print_to(x->to, "policy = jax.checkpoint_policies.save_only_these_names(\n");
    for (size_t k = 0; k < n; k++) applied_list(x, tensor_name(x->graph, list[k]));
    print_to(x->to, ")\nloss = jax.checkpoint(loss, policy=policy)\n");
}

/* Prints the best list of checkpoints within the plan's budget. In backward, the framework recomputes the segments between
 * them. */
static mp_status apply_list(applied *x, const char *what, void (*print)(const applied *, const int *, size_t))
{
    const mp_request request = {.graph = x->graph, .budget_bytes = x->budget_bytes, .solver = "segments"};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED int *list = NULL;
    int64_t peak_bytes, ticks;
    MP_CHECK(mp_solve(&request, &answer, x->err));
    if (!answer.plan) return applied_too_coarse(x, "the smallest peak of recomputed segments is", answer.smallest->peak_bytes);
    size_t n = answer.plan->n_checkpoints;
    MP_ENSURE(list = mp_alloc(n, sizeof *list), x->err, MP_NOMEM, "out of memory");
    if (n) memcpy(list, answer.plan->checkpoints, n * sizeof *list);
    MP_CHECK(shorten(x, list, &n));
    MP_CHECK(mp_segments_on(x->graph, list, n, &peak_bytes, &ticks, x->err));
    applied_head(x, what, peak_bytes, ticks);
    print(x, list, n);
    return MP_OK;
}

mp_status report_apply(const mp_workload *s, const char *framework, FILE *to, applied_means *found, mp_error *err)
{
    const mp_plan *plan = s->plan;
    MP_OWNED_BY(mp_modules_free) mp_modules *modules = NULL;
    MP_CHECK(mp_modules_new(s->graph, &modules, err));
    applied x = {.workload = s, .graph = s->graph, .plan = plan, .modules = modules, .to = to, .found = found, .err = err};
    MP_OWNED bool *chosen = mp_alloc((size_t)modules->n, sizeof *chosen);
    if (!chosen) return MP_NO_MEMORY(err);
    x.chosen = chosen;
    x.budget_bytes = plan->budget_bytes < MP_NO_LIMIT ? plan->budget_bytes : plan->peak_bytes;
    if (s->model && !s->file) x.architecture = mp_workload_architecture(s->path);
    /* in Hugging Face's transformers the norms are outside of attention and mlp, so only whole blocks can be wrapped there */
    if (x.architecture && !strcmp(framework, "pytorch")) return apply_blocks(&x, print_torch_blocks);
    if (x.architecture && !strcmp(framework, "torch-remat")) return apply_blocks(&x, print_remat_blocks);
    if (!strcmp(framework, "pytorch")) return apply_pytorch(&x, &by_torch);
    if (!strcmp(framework, "torch-remat")) return apply_pytorch(&x, &by_remat);
    if (!strcmp(framework, "pytorch-selective")) return apply_selective(&x);
    if (!strcmp(framework, "paddle")) return apply_list(&x, "checkpoints for RecomputeOptimizer", print_paddle);
    if (!strcmp(framework, "jax")) return apply_list(&x, "names for jax.checkpoint", print_jax);
    return apply_blocks(&x, !strcmp(framework, "huggingface") ? print_huggingface
                            : !strcmp(framework, "megatron")  ? print_megatron
                                                              : print_deepspeed);
}
