/* option_rows.c - the option table, which is generated from options.def, and the names that options accept as values. */
#include "cli/options/options.h"
#include "cli/options/own_device.h"
#include "estimator/base/names.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/backend.h"
#include "executor/kernel/optimizer.h"
#include "memplan/ranks/schedule.h"
#include "memplan/share.h"
#include "memplan/solver.h"

/* The values that an option of kind CHOICE accepts: the names of an enum, the names in a table, or a list of words. */
#define NAMED(what, n, name_of)                    \
    static const char *what##_choice(size_t k)     \
    {                                              \
        return k < (size_t)(n) ? (name_of) : NULL; \
    }
#define WORDS(what, ...)                                           \
    static const char *what##_choice(size_t k)                     \
    {                                                              \
        static const char *const words[] = {__VA_ARGS__};          \
        return k < sizeof words / sizeof *words ? words[k] : NULL; \
    }

NAMED(loss, MP_N_LOSSES, mp_loss_name((mp_loss)k))
NAMED(optimizer, MP_N_OPTIMIZERS, mp_optimizer_name((mp_optimizer)k))
NAMED(fuse, MP_N_FUSES, mp_fuse_name((mp_fuse)k))
NAMED(rules, MP_N_RULES, mp_rules_name((mp_rules)k))
NAMED(solver, mp_solver_count(), mp_solver_row(k)->name)
NAMED(effort, MP_N_EFFORTS, mp_effort_name((mp_effort)k))
NAMED(way, MP_N_SHARE_WAYS, mp_share_way_name((mp_share_way)k))
NAMED(goal, MP_N_SHARE_GOALS, mp_share_goal_name((mp_share_goal)k))
NAMED(pipeline, MP_N_SCHEDULES, mp_schedule_name((mp_schedule)k))
NAMED(schedule, MP_N_RATES, mp_rate_schedule_name((mp_rate_schedule)k))
WORDS(dtype, "fp32", "fp16", "bf16")
WORDS(amp, "none", "bf16", "fp16")
WORDS(view, "memory", "arena", "all")
WORDS(granularity, "tensor", "module")
WORDS(framework, "pytorch", "pytorch-selective", "torch-remat", "huggingface", "paddle", "megatron", "jax", "deepspeed")
WORDS(format, "svg", "png", "pdf", "dot", "json")
WORDS(reduce, "ordered", "fast")
WORDS(exchange, "ring", "server")
WORDS(sort, "kept", "parameters", "time", "name")
WORDS(color, "auto", "always", "never")

/* Returns the k-th value of --device: first the names of the device profiles, then the backends without a profile of the same
 * name. */
static const char *device_choice(size_t k)
{
    const char *name;
    if (k < mp_device_count()) return mp_device_row(k)->name;
    k -= mp_device_count();
    for (size_t b = 0; (name = mp_backend_name(b)); b++)
        if (!mp_device_find(name) && !k--) return name;
    return NULL;
}

/* True for values of --device that are not among the choices: backends, devices with changes, and device files. */
static bool is_other_device(const char *name)
{
    return mp_backend_is_name(name) || device_is_own(name) || device_is_file(name);
}

#define QUOTED(x) #x
#define TEXT_OF(macro) QUOTED(macro)

#define ESTIMATE (1u << CMD_ESTIMATE)
#define PLAN (1u << CMD_PLAN)
#define GRAPH (1u << CMD_GRAPH)
#define CHECK (1u << CMD_CHECK)
#define APPLY (1u << CMD_APPLY)
#define PACK (1u << CMD_PACK)
#define TIMELINE (1u << CMD_TIMELINE)
#define REPORT (1u << CMD_REPORT)
#define SWEEP (1u << CMD_SWEEP)
#define FIT (1u << CMD_FIT)
#define SHARE (1u << CMD_SHARE)
#define PARALLEL (1u << CMD_PARALLEL)
#define DRAW (1u << CMD_DRAW)
#define TRAIN (1u << CMD_TRAIN)
#define PROFILE (1u << CMD_PROFILE)
#define MODEL                                                                                                             \
    (ESTIMATE | PLAN | GRAPH | CHECK | APPLY | PACK | SWEEP | FIT | PARALLEL | SHARE | DRAW | TIMELINE | REPORT | TRAIN | \
     PROFILE)
#define RANKS (MODEL & ~(APPLY | SHARE | PROFILE))
#define PIPELINES (RANKS & ~(PARALLEL | TRAIN))
#define COPIES (MODEL & ~(ESTIMATE | APPLY | FIT | SHARE | PROFILE))
#define OPS (1u << CMD_OPS)
#define LISTS (OPS | 1u << CMD_SOLVERS | 1u << CMD_DEVICES | 1u << CMD_MODELS | 1u << CMD_VERSION)
#define ANSWERS (ESTIMATE | PLAN | GRAPH | CHECK | APPLY | PACK | SWEEP | FIT | PARALLEL | SHARE | TRAIN | PROFILE | LISTS)
#define NAMED_MODEL (1u << CMD_MODEL)
#define EVERY ((1u << N_COMMANDS) - 1)

#define OPTION(ID, text, sort, field, takers, ...) \
    [OPT_##ID] = {.name = text, .kind = KIND_##sort, .offset = offsetof(options, field), .commands = takers, __VA_ARGS__},
const option_row option_rows[N_OPTIONS] = {
#include "cli/options/options.def"
};
#undef OPTION
