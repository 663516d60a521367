/* model.h - a network as stored in its file: operators, tensors and attributes, with all dimensions known.
 *
 * A reader in formats/, or a caller through the functions below, builds a model. mp_model_infer (infer.h) infers its shapes,
 * and mp_model_simplify (simplify.h) simplifies it. The model's pool owns all its data until mp_model_free. Indices identify
 * tensors and operators and never change; removed operators are only marked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estimator/base/memory.h"
#include "estimator/model/doubts.h"
#include "memplan/error.h"
#include "memplan/model.h"

enum { MP_VALUE_MAX = 1 << 17 }; /* maximum number of elements of a value that the model stores */

/* The elements of a tensor in row-major order. Integers and booleans are in `i`, floats in `f`. */
typedef struct mp_value {
    int64_t n;
    bool is_real;
    union {
        int64_t *i;
        double *f;
    };
} mp_value;

/* Returns a value with n zeroed elements in the model's pool; NULL: out of memory. */
mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real);

struct mp_operator;

typedef enum mp_attribute_kind {
    MP_ATTRIBUTE_INT,
    MP_ATTRIBUTE_FLOAT,
    MP_ATTRIBUTE_TEXT, /* a text; a list of texts is stored as one text, separated by commas */
    MP_ATTRIBUTE_INTS,
    MP_ATTRIBUTE_FLOATS,
    MP_ATTRIBUTE_TENSOR, /* a tensor: dtype, rank and dims. Its value is stored only if it is small and numeric */
    MP_ATTRIBUTE_OTHER   /* the attribute exists, but no rule reads its kind: graphs, sparse tensors, types */
} mp_attribute_kind;

typedef struct mp_attribute {
    const char *name;
    mp_attribute_kind kind;
    int64_t i;        /* the value, if the attribute has kind INT */
    double f;         /* the value, if the attribute has kind FLOAT */
    const char *text; /* the value, if the attribute has kind TEXT */
    size_t n;         /* number of elements, if the attribute has kind INTS or FLOATS */
    int64_t *ints;
    double *floats;
    mp_dtype dtype; /* element type, for kind TENSOR */
    int rank;
    int64_t *dims;
    mp_value *value; /* elements, for kind TENSOR; NULL: too many elements, or no value */
} mp_attribute;

/* Return an attribute for an operator draft. The attribute points to the argument and does not copy it. */
mp_attribute mp_attribute_int(const char *name, int64_t i);
mp_attribute mp_attribute_float(const char *name, double f);
mp_attribute mp_attribute_ints(const char *name, const int64_t *ints, size_t n);

/* Makes a deep copy of the attributes from[0..n). On failure *out is unchanged. MP_NOMEM. */
mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err);

/* Return the value of an attribute. If the attribute is absent or has another kind, return `otherwise`. */
const mp_attribute *mp_operator_attribute(const struct mp_operator *op,
                                          const char *name); /* returns NULL if the operator lacks the attribute */
int64_t mp_operator_int(const struct mp_operator *op, const char *name, int64_t otherwise);
double mp_operator_float(const struct mp_operator *op, const char *name, double otherwise);
const char *mp_operator_text(const struct mp_operator *op, const char *name, const char *otherwise);
/* Returns the *n elements of a list attribute. If the attribute is absent, returns NULL and sets *n to 0. */
const int64_t *mp_operator_ints(const struct mp_operator *op, const char *name, size_t *n);

enum { MP_RANK_MAX = 32 }; /* maximum rank of a tensor; a model with more dimensions is refused */

/* The role of a tensor: the source of its data. */
typedef enum mp_role {
    MP_ROLE_ACTIVATION, /* a result of an operator */
    MP_ROLE_DATA,       /* a data input, such as the batch: it has new values in every training step */
    MP_ROLE_PARAMETER,  /* a parameter: trained, unless frozen */
    MP_ROLE_BUFFER,  /* a tensor that is kept between training steps but not trained: running statistics of batch normalization,
                        masks */
    MP_ROLE_CONSTANT /* a value that is fixed in the file, or folded from constants */
} mp_role;
const char *mp_role_name(mp_role role);

/* The known structure of a square boolean mask whose elements are not stored. A mask of bytes counts as boolean: nonzero is
 * true. */
typedef enum mp_mask {
    MP_MASK_UNKNOWN,
    MP_MASK_PAST,  /* true for the elements on and below the diagonal of the last two dimensions, which a causal mask keeps;
                      false for all others */
    MP_MASK_FUTURE /* true for the elements above the diagonal, which a causal mask hides; false for all others */
} mp_mask;

/* How a program gives the mask that a file adds to the scores of attention. Exporters write all three as the same operators. */
typedef enum mp_mask_given {
    MP_MASK_AS_TENSOR,   /* as an argument; also if the file does not say it */
    MP_MASK_BY_FLAG,     /* by is_causal=True: PyTorch stores no mask */
    MP_MASK_BY_POSITIONS /* computed by comparing positions. The package transformers does so in a trace only; in training it
                            passes is_causal=True */
} mp_mask_given;

/* The order in which a backend stores the elements of a tensor. The backend decides it when it prepares a network. All zero
 * means MP_LAYOUT_PLAIN. */
typedef enum mp_layout {
    MP_LAYOUT_PLAIN,         /* row-major: the last dimension is innermost */
    MP_LAYOUT_CHANNELS_LAST, /* the second dimension is innermost: (N, C, H, W) is stored as N, H, W, C */
    MP_LAYOUT_COLUMN_MAJOR,  /* the first dimension is innermost; the rank is 2 */
    MP_LAYOUT_ALIGNED_ROWS   /* row-major, but each row of the last dimension begins at a multiple of MP_ROW_ALIGNMENT elements.
                                The elements between two rows are unused. The rank is >= 1 */
} mp_layout;
enum { MP_ROW_ALIGNMENT = 8 }; /* 16 bytes in bf16, the alignment that matrix products on tensor cores need for full speed */
typedef struct mp_stored {
    mp_layout layout;
    const void *packed; /* the backend's own description of a packed weight; NULL: the tensor is stored as `layout` states */
    int64_t packed_elements; /* number of elements of the packed weight in the backend's memory, padding included */
} mp_stored;

/* A list of tensors (ONNX type "sequence"). It is stored in the model's pool and never changes. */
typedef struct mp_sequence {
    int n;
    int *items; /* indices of the tensors that the sequence contains */
    struct mp_sequence_block {
        int used, size;
    } * block; /* the memory block that contains `items`. A longer sequence that begins with the same tensors may share the
                  block. NULL: the sequence is empty */
} mp_sequence;
typedef struct mp_sequence_block mp_sequence_block;

/* The shard that a rank holds of a tensor, in a model that is split over ranks. Dimension `dim` is divided into `outer` runs
 * of equal length. Each rank holds an equal share of every run, in rank order. */
typedef struct mp_tensor_part {
    int dim;
    int64_t outer, ranks;
    const int64_t *dims; /* dimensions of the whole tensor, before sharding */
    mp_value *value;     /* elements of the whole tensor, before sharding; NULL: not known */
} mp_tensor_part;

typedef struct mp_tensor {
    const char *name;
    mp_dtype dtype;
    int rank;                /* number of dimensions; -1: unknown */
    int64_t *dims;           /* sizes of the tensor's dimensions, each >= 0 */
    mp_dtype declared_dtype; /* element type declared in the file; UNDEFINED: not declared */
    int declared_rank;       /* rank declared in the file; -1: not declared */
    int64_t *declared_dims;  /* declared sizes of the dimensions; -1 for a dimension without a declared size */
    mp_role role;
    const char *source;      /* source line in the user's program, "net.py:12: return x"; NULL: unknown */
    const char *role_reason; /* the rule that determined the role, for reports: "named with --data" */
    int producer;            /* index of the operator that writes the tensor; -1: no operator writes it */
    mp_value *value;         /* the elements of the tensor, if they are known before execution; NULL: unknown */
    mp_mask mask;            /* structure of a boolean mask if `value` is NULL; otherwise UNKNOWN */
    mp_mask_given given;     /* if the tensor is a mask of attention: how the program gives it */
    bool is_output;          /* true if the model declares the tensor as an output */
    bool is_target;          /* true for the target input of the appended loss */
    bool is_frozen;          /* true for a parameter that is not trained because adapters are trained instead (adapters.h) */
    bool is_summed;          /* true if each rank of a split model computes only a partial sum of this parameter's gradient
                                (parallel/split.h) */
    bool is_spread;          /* true for a parameter of experts; other ranks hold other experts (parallel/experts.h) */
    bool starts_at_zero;     /* true for a parameter whose initial values are 0, whatever reads it */
    bool is_formal; /* true for a formal parameter of a region: a placeholder for a value that the control operator passes to
                       the region */
    mp_sequence *sequence; /* for a sequence: its list of tensors, known after mp_model_infer. NULL: an ordinary tensor */
    const mp_tensor_part
        *part;        /* the shard that each rank holds in a split model (parallel/split.h); NULL: the tensor is replicated */
    mp_stored stored; /* the order in which the backend stores the elements of this tensor */
    int replaced_by;  /* index of the tensor that replaced this one during simplification; -1: not replaced */
} mp_tensor;

/* Return the dimensions and the value of the whole tensor, even if ranks hold only shards. */
static inline const int64_t *mp_tensor_whole_dims(const mp_tensor *t)
{
    return t->part ? t->part->dims : t->dims;
}
static inline mp_value *mp_tensor_whole_value(const mp_tensor *t)
{
    return t->part ? t->part->value : t->value;
}

/* The type of a control operator (an operator with subgraphs). */
typedef enum mp_control { MP_CONTROL_NONE, MP_CONTROL_IF, MP_CONTROL_LOOP, MP_CONTROL_SCAN } mp_control;

/* The reason why the source program may have executed an operator in another way than the file states. If so, the memory of
 * the program differs from the estimate. */
typedef enum mp_guess {
    MP_GUESS_NONE,
    MP_GUESS_FORMULA, /* simplification has fused several operators into one, but the program may have run them one by one */
    MP_GUESS_LOOP     /* a loop is replaced by its iterations, but the program may have run it as one operator */
} mp_guess;

/* Exceptions to the values that ops.def states for gradients. Only for PyTorch's rules. */
typedef enum mp_saves {
    MP_SAVES_AS_STATED,
    MP_SAVES_OUTPUT,    /* the gradient reads only the output */
    MP_SAVES_NO_OUTPUT, /* the output is an intermediate value of one call, so no gradient reads it */
    MP_SAVES_INDICES    /* the gradient reads only the indices that the call also returns */
} mp_saves;

enum { MP_CHUNK_SUM = -1 }; /* value of mp_operator.chunk */

struct mp_op; /* a row of the operator registry (ops.h) */

typedef struct mp_operator {
    const char *name;   /* unique name of the operator: the name in the file, or a name built from its kind and first output */
    const char *kind;   /* operator type, such as "Conv" */
    const char *domain; /* domain of the operator type; "" is ai.onnx */
    int version;        /* version of this domain's operator set that the file imports */
    const struct mp_op *op; /* registry row; NULL until mp_model_infer */
    int n_in, n_out;
    int *in, *out; /* indices of input and output tensors; -1: an omitted input or output */
    size_t n_attributes;
    mp_attribute *attributes;
    int number;       /* 1 + the operator's index before the model was split or adapted to a backend; 0: not recorded */
    const char *call; /* the function call in the source program that produced the operator, as recorded by the exporter; NULL:
                         not recorded */
    int chunk;        /* number of the chunk of the loss, from 1 (loss_chunks.h). MP_CHUNK_SUM: the sum of the chunks' losses.
                         0: the operator belongs to no chunk */
    /* true for a Split and a Concat of a chunked region (row_regions.h). Their parts are blocks of rows, one after the other in
     * memory. The parts of the Split are views of its input. The gradients of the Concat's parts are views of its output's
     * gradient */
    bool shares_rows;
    bool removed;       /* true if folding or simplification has removed the operator */
    mp_saves saves;     /* under PyTorch's rules: which values gradients read */
    mp_guess guess;     /* reason why the source program may have executed this operator in another way */
    int region;         /* index of the region that contains this operator; 0: the main graph */
    mp_control control; /* type of control operator. Valid as long as regions[] exist */
    int regions[2];     /* indices in mp_model.regions of the operator's subgraphs; 0: none */
} mp_operator;

/* A subgraph of a control operator (If, Loop, Scan). Its operators are in the model's common list. Its results are additional
 * operands of the control operator, so that sorting places the region before the operator. mp_model_infer removes all
 * regions. */
typedef struct mp_region {
    int outer;          /* index of the region that contains the control operator */
    const char *prefix; /* prefix of the names of the region's tensors and operators: "/If#then" */
    int n_formals, n_results;
    int *formals,
        *results; /* indices of the formal parameters and of the results. A result may be a tensor from outside the region */
} mp_region;

struct mp_model {
    const char *name;            /* base name of the file, without its ending */
    const char *path;            /* path of the file as the user gave it, for messages; "": none */
    const char *external_folder; /* second folder for external weights, in addition to the file's folder; NULL: none */
    mp_pool *pool;
    size_t n_tensors, tensors_capacity;
    mp_tensor *tensors;
    size_t n_operators, operators_capacity;
    mp_operator *operators; /* operators in file order; after mp_model_sort in execution order */
    size_t n_regions, regions_capacity;
    mp_region *regions;    /* regions (subgraphs); region 0 is the main graph. A model without control operators has none */
    int *inputs, *outputs; /* indices of the declared inputs that have no initializers, and of the declared outputs */
    size_t n_inputs, n_outputs, inputs_capacity, outputs_capacity;
    int folded_norms;             /* number of batch normalizations that the exporter has folded into other operators */
    bool is_foreign;              /* true if another program than memplan wrote the file */
    bool is_of_newer_exporter;    /* true if PyTorch's torch.onnx.export with dynamo=True wrote the file */
    bool is_of_transformers;      /* true if the file names classes of the package transformers */
    mp_doubt doubts[MP_N_DOUBTS]; /* per kind of doubt: counts of weights for which the file does not state whether they are
                                     trained */
    struct mp_names *names;       /* map from a tensor's name to its index */
    struct mp_names *tensor_numbers, *operator_numbers; /* map from the stem of a name to the next number to append */
};

/* Creates an empty model. On MP_OK release *out with mp_model_free. MP_NOMEM. */
mp_status mp_model_new(const char *name, const char *path, mp_model **out, mp_error *err);

/* Returns the tensor with this name; -1: no tensor has this name. O(1). */
int mp_model_find(const mp_model *model, const char *name);

/* Finds the tensor with this name, or adds it as an activation of unknown type and rank without producer. MP_NOMEM. */
mp_status mp_model_tensor(mp_model *model, const char *name, int *index, mp_error *err);
/* Adds a tensor named `stem`. If a tensor has this name, a number is appended to the new name. MP_NOMEM. */
mp_status mp_model_fresh_tensor(mp_model *model, const char *stem, int *index, mp_error *err);

/* The description of an operator to be added. mp_model_operator copies all of it. */
typedef struct mp_operator_draft {
    const char *name; /* name of the operator; NULL or "": a name is generated */
    const char *kind, *domain;
    int version;
    const int *in, *out; /* indices of input and output tensors; -1: an omitted operand */
    int n_in, n_out;
    const mp_attribute *attributes; /* attributes of the operator; the model gets deep copies */
    size_t n_attributes;
} mp_operator_draft;

/* Return a draft without outputs whose operator will get a generated name. The draft has this kind, or the kind and
 * attributes of `op`. */
mp_operator_draft mp_draft(const char *kind, const char *domain, int version, const int *in, int n_in,
                           const mp_attribute *attributes, size_t n_attributes);
mp_operator_draft mp_draft_like(const mp_operator *op, const int *in, int n_in);

/* Appends the operator that a draft describes. It becomes the producer of its outputs. MP_PARSE: an output already has a
 * producer, or the operator reads its own output. MP_NOMEM. Pointers into model->operators become invalid. */
mp_status mp_model_operator(mp_model *model, const mp_operator_draft *draft, int *index, mp_error *err);

/* Marks a tensor as a declared input or a declared output of the model. MP_NOMEM. */
mp_status mp_model_declare_input(mp_model *model, int tensor, mp_error *err);
mp_status mp_model_declare_output(mp_model *model, int tensor, mp_error *err);

/* Sets the type and shape of a tensor; dims are copied. MP_PARSE: the rank exceeds MP_RANK_MAX, a dimension is negative, or
 * the bytes exceed int64_t. MP_NOMEM. */
mp_status mp_tensor_set(mp_model *model, int tensor, mp_dtype dtype, int rank, const int64_t *dims, mp_error *err);

/* Adds a constant tensor of this type and shape, with a name derived from `stem`. The elements in *value are zero until the
 * caller sets them. MP_NOMEM. */
mp_status mp_model_constant(mp_model *model, const char *stem, mp_dtype dtype, int rank, const int64_t *dims, int *tensor,
                            mp_value **value, mp_error *err);

/* Return the number of elements, and the bytes, of a tensor with known shape. 4-bit types are rounded up to whole bytes;
 * strings count 0 bytes. */
int64_t mp_tensor_elements(const mp_tensor *tensor);
int64_t mp_stored_elements(const mp_tensor *tensor); /* number of stored elements; larger than the number of elements if the
                                                        backend's layout adds padding */
int64_t mp_tensor_bytes(const mp_tensor *tensor);
/* Returns the number of unused elements between two rows of a tensor (MP_LAYOUT_ALIGNED_ROWS); 0: its layout has none. */
int64_t mp_row_padding(const mp_tensor *tensor);

/* True if the shapes of both tensors are known, and type and dimensions are equal. */
bool mp_same_shape(const mp_tensor *a, const mp_tensor *b);

/* Return the k-th input or output tensor of an operator; NULL: the operand is omitted. */
mp_tensor *mp_operator_in(const mp_model *model, const mp_operator *op, int k);
mp_tensor *mp_operator_out(const mp_model *model, const mp_operator *op, int k);

/* Order of the operands of control operators. Control operators exist until mp_model_infer replaces them.
 *
 *     If      inputs: condition. Then the results of both regions, one result per output
 *     Loop    inputs: trip count, condition, carried values. Then the results of the region: condition, carried values, and
 *             values to stack
 *     Scan    inputs: sequence lengths (only before operator set 9), carried values, scanned values. Then the results of the
 *             region: carried values, and values to stack
 */

/* Adds an empty region that is nested in region `outer`. The prefix must be in the model's pool, because it is not copied.
 * MP_NOMEM. */
mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err);

/* Returns the number of inputs of a control operator, without the results of its regions. */
int mp_operator_explicit_inputs(const mp_model *model, const mp_operator *op);
/* Returns the input of a control operator whose value the k-th formal parameter of its region has in the first iteration; -1:
 * there is no such input. */
int mp_operator_input_of_formal(const mp_model *model, const mp_operator *op, int k);
/* Returns the output of the control operator that receives the k-th result of a region, at the end or stacked per iteration;
 * -1: none. */
int mp_operator_output_of_result(const mp_operator *op, int k);
