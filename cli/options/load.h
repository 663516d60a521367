/* load.h - loads the workload of a command, and prints its notes on standard error. */
#pragma once

#include "cli/options/options.h"
#include "memplan/workload.h"

/* MP_INVALID: the path names a graph file, and options for models were given. */
mp_status refuse_model_options(const char *path, const options *o, mp_error *err);
/* For commands that need fixed numbers of chunks of rows: refuses --row-chunks auto. Returns an exit status; 0: accepted. */
int refuse_open_chunks(const options *o);
/* Loads the workload from a path with the settings of the options. Prints its notes, each kind once per model. MP_INVALID:
 * options for models were given with a graph file. Release with mp_workload_free on any status. Other errors as
 * mp_workload_load. */
mp_status load_workload(const char *path, const options *o, mp_workload *out, mp_error *err);
/* Like load_workload, for a model with a plan file. Options that are not on the command line are taken from the plan. plan_path
 * NULL: there is no plan. Errors: as mp_workload_load_as_planned. */
mp_status load_workload_as_planned(const char *path, const char *plan_path, options *o, mp_workload *out, mp_error *err);
/* Like load_workload_as_planned, and loads the plan to out->plan. The plan is checked, because a picture of a wrong plan would
 * mislead. Errors: as mp_workload_load_with_plan. */
mp_status load_workload_with_plan(const char *path, const char *plan_path, options *o, mp_workload *out, mp_error *err);
/* Prints the notes from number `first` on. Loads of the same model one after another print each kind of note once, because a
 * command may build the model for many batch sizes or ranks. w->path must remain valid. */
void print_notes(const mp_workload *w, size_t first);
/* Returns the name of the program that trains, for a verdict: ", in PyTorch" or ", in memplan". Returns "" for a graph from
 * another program. */
const char *workload_program(const mp_workload *w);
