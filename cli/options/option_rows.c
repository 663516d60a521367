/* option_rows.c - the option table, generated from options.def, and the names that are allowed as values of options. */
#include <assert.h>

#include "cli/options/options.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/backend.h"
#include "executor/kernel/optimizer.h"
#include "memplan/framework_code.h"
#include "memplan/solver.h"
#include "memplan/studies/share.h"
#include "memplan/summary.h"

// clang-format off
static MP_CHOICE_OF_NAMES(solver_choice, mp_solver_count(), mp_solver_row(k)->name)
static MP_CHOICE_OF_NAMES(effort_choice, MP_N_EFFORTS, mp_effort_name((mp_effort)k))
static MP_CHOICE_OF_NAMES(way_choice, MP_N_SHARE_WAYS, mp_share_way_name((mp_share_way)k))
static MP_CHOICE_OF_NAMES(goal_choice, MP_N_SHARE_GOALS, mp_share_goal_name((mp_share_goal)k))
static MP_CHOICE_OF_NAMES(lr_schedule_choice, MP_N_RATES, mp_rate_schedule_name((mp_rate_schedule)k))
static MP_CHOICE_OF_NAMES(framework_choice, MP_N_FRAMEWORKS, mp_framework_name((mp_framework)k))
static MP_CHOICE_OF_NAMES(sort_choice, MP_SUMMARY_NETWORK, mp_summary_column_name((mp_summary_column)k))
static MP_CHOICE_OF_WORDS(view_choice, "memory", "arena", "all")
static MP_CHOICE_OF_WORDS(granularity_choice, "tensor", "module")
static MP_CHOICE_OF_WORDS(format_choice, "svg", "png", "pdf", "dot", "json")
static MP_CHOICE_OF_WORDS(color_choice, "auto", "always", "never")
// clang-format on

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
    [OPT_##ID] = {.name = text, .kind = MP_VALUE_##sort, .offset = offsetof(options, field), .commands = takers, __VA_ARGS__},
    const mp_option_row option_rows[N_OPTIONS] = {
#include "cli/options/options.def"
};
#undef OPTION
static_assert(OPT_STASH == (option_id)MP_OPTION_STASH, "the settings of a workload are the first options");
