/* option_rows.h - the table of a workload's settings. One row gives a setting's name, its kind of value, its field, and the
 * key under which graphs and plans store it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/workload.h"

typedef enum mp_value_kind {
    MP_VALUE_FLAG,    /* bool, true if given */
    MP_VALUE_OFF,     /* a bool, which is false if the option is given, else true */
    MP_VALUE_TEXT,    /* const char * */
    MP_VALUE_CHOICE,  /* a const char *, one of the choices in the option's row */
    MP_VALUE_LIST,    /* mp_text_list, one element per use */
    MP_VALUE_BINDING, /* mp_text_list of NAME=N */
    MP_VALUE_MESH,    /* mp_mesh, written like "dp=2,pp=2" */
    MP_VALUE_COUNT,   /* an int64_t, at least the value `least` of the option's row */
    MP_VALUE_BYTES,   /* an int64_t > 0 in bytes, written like "64MiB"; 0: the option is not given */
    MP_VALUE_PERCENT, /* a double > 0, written like "0.5%", stored as a fraction; 0: the option is not given */
    MP_VALUE_POSITIVE /* a double > 0; 0: the option is not given */
} mp_value_kind;

/* The way in which the ranks of one training must agree on an option that is not part of their graph. */
typedef enum mp_agreement { MP_AGREES_NOT, MP_AGREES_VALUE, MP_AGREES_PRESENCE } mp_agreement;

typedef struct mp_option_row {
    const char *name; /* name of the option, such as "batch"; on the command line, a name of a single letter has one dash */
    mp_value_kind kind;
    size_t offset;                   /* offset of the field in mp_workload_options, or in the command line's struct */
    unsigned commands;               /* for the command line: bit k: command k accepts the option */
    const char *key;                 /* name in the `options` object of a graph; NULL: the option does not shape the graph */
    bool is_rare;                    /* true: if the field is empty, a graph's `options` omit the key */
    const char *argument;            /* name of the value, as shown in help: "N" */
    const char *otherwise;           /* default value of a TEXT or CHOICE; NULL: none */
    int64_t least;                   /* COUNT: the smallest value */
    const char *(*choice)(size_t k); /* CHOICE: returns the k-th name; NULL: there is no k-th name */
    bool (*also)(const char *name);  /* CHOICE: returns true for other values that are accepted; may be NULL */
    /* CHOICE: text for error messages, which describes the values that the function `also` accepts */
    const char *others;
    /* CHOICE: returns the present spelling of a value. For a spelling of earlier releases it prints a notice. NULL: no value
     * has an earlier spelling */
    const char *(*present)(const char *value);
    /* for ranks of one training. MP_AGREES_VALUE: all must have the same value; MP_AGREES_PRESENCE: all or none must give the
     * option */
    mp_agreement agrees;
    bool is_output; /* true, for TEXT: the value is the name of a file that the command writes */
    /* for an old option: its present form. An old option prints a notice, and help omits it. NULL: the option is not old */
    const char *instead;
    const char *former;   /* name in earlier releases, which is accepted with a notice; NULL: none */
    bool for_experiments; /* true: an option only for tests and benchmarks, which help lists last */
    const char *help;
} mp_option_row;

#define OPTION(ID, ...) MP_OPTION_##ID,
typedef enum mp_option_id {
#include "executor/workload/options.def"
    MP_N_WORKLOAD_OPTIONS
} mp_option_id;
#undef OPTION
extern const mp_option_row mp_workload_option_rows[MP_N_WORKLOAD_OPTIONS];

/* Define a function that returns the values of a CHOICE: the names of an enum or of a table, or a list of words. */
#define MP_CHOICE_OF_NAMES(function, n, name_of)   \
    const char *function(size_t k)                 \
    {                                              \
        return k < (size_t)(n) ? (name_of) : NULL; \
    }
#define MP_CHOICE_OF_WORDS(function, ...)                          \
    const char *function(size_t k)                                 \
    {                                                              \
        static const char *const words[] = {__VA_ARGS__};          \
        return k < sizeof words / sizeof *words ? words[k] : NULL; \
    }
#define MP_QUOTED(x) #x
#define MP_TEXT_OF(macro) MP_QUOTED(macro)

const char *mp_loss_choice(size_t k), *mp_optimizer_choice(size_t k), *mp_fuse_choice(size_t k), *mp_rules_choice(size_t k),
    *mp_pipeline_choice(size_t k), *mp_dtype_choice(size_t k), *mp_amp_choice(size_t k), *mp_reduce_choice(size_t k),
    *mp_rates_choice(size_t k),
    *mp_device_choice(size_t k); /* the names of the device profiles, then of the backends without a profile of the same name */
/* True for devices that are not in the list of choices: backends, changed devices and device files. */
bool mp_is_other_device(const char *name);
/* True for "memplan", an alternative name of the executor's rules. */
bool mp_is_executor_rules(const char *name);
/* Returns the table's spelling of a CHOICE value; NULL if the option does not accept it. */
const char *mp_choice_taken(const mp_option_row *row, const char *value);
/* Returns the value of an option as text, with which ranks compare it; "" for a list, a mesh and a binding. base: the struct
 * that the row's offset is for. mp_text allocates the text. */
const char *mp_option_text(const mp_option_row *row, const void *base);
