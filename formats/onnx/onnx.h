/* onnx.h - declarations shared by the files of this folder: the steps by which onnx.c reads a file, and the look-up of names
 * for nodes. Private to formats/onnx. onnx_weights.h declares the access to values of tensors. */
#pragma once

#include "estimator/base/names.h"
#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "memplan/onnx.h"
#include "onnx.pb-c.h"

/* ---- onnx_uses.c: how operators read each tensor, which is evidence for its role. Private to formats/onnx ---- */

/* The ways in which operators read a tensor. If an operator reads only some rows of a weight, ROWS is set in addition to
 * WEIGHT. */
enum {
    MP_ONNX_READ_WEIGHT = 1,
    MP_ONNX_READ_STATISTIC = 2,
    MP_ONNX_READ_SETTING = 4,
    MP_ONNX_READ_OTHER = 8,
    MP_ONNX_READ_COMPARED = 16,
    MP_ONNX_READ_ROWS = 32
};

typedef struct mp_onnx_use {
    unsigned how;         /* all ways in which the tensor is read, as MP_ONNX_READ_* bits */
    int n_reads, n_table; /* n_reads: number of operands that are this tensor. n_table: number of these operands that belong to
                             elementwise operators */
    int n_factor;         /* number of Mul and Div operators that read the tensor */
    int n_scaling;        /* number of times that the tensor scales attention scores before a softmax */
    bool makes_weight;    /* true if the tensor depends on no input of the model and is read as a weight, or if a weight is
                             computed from this tensor alone */
} mp_onnx_use;

/* Determines the uses of all tensors. *out has one entry per tensor; release it with mp_free. MP_NOMEM. O(operands). */
mp_status mp_onnx_uses_find(const mp_model *model, mp_onnx_use **out, mp_error *err);

/* ---- the reader ---- */

typedef struct mp_onnx_function {
    const Onnx__FunctionProto *proto;
    size_t n_defaults;
    Onnx__AttributeProto **defaults; /* n_defaults attributes with the values that are used if a call omits them */
} mp_onnx_function;

typedef struct mp_onnx_functions {
    size_t n;
    mp_onnx_function *list;
    mp_names *index; /* map from the key of a function to its position in `list` */
    mp_pool *pool;
    mp_onnx_budget *budget;
} mp_onnx_functions;

/* Collects the functions that the file defines. MP_PARSE: a function has no name, or two functions have the same name.
 * MP_NOMEM. On MP_OK release *out with mp_onnx_functions_free, before the file. */
mp_status mp_onnx_functions_read(const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_onnx_functions *out, mp_error *err);
void mp_onnx_functions_free(mp_onnx_functions *functions); /* releases the members of the struct; a zeroed struct is allowed */

/* Finds the function that a node calls. If the file defines no function with this name, *found is NULL. MP_NOMEM. */
mp_status mp_onnx_function_of(const mp_onnx_functions *functions, const Onnx__NodeProto *node, const mp_onnx_function **found,
                              mp_error *err);

/* Returns the operator domain of a node: "" for ONNX's own operators, for which some files use "ai.onnx". Never NULL. */
const char *mp_onnx_domain(const char *domain);
/* Checks that each operator set is imported once, and that its version is plausible. MP_PARSE: a set is imported twice, or its
 * version is not plausible. */
mp_status mp_onnx_check_imports(const Onnx__ModelProto *file, mp_error *err);
/* Returns the version of a domain that the file imports; 0: the domain is not imported. */
int mp_onnx_version(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain);

/* A scope resolves the names that a node uses. A scope is the main graph, a function call, or a subgraph. In a subgraph the
 * names of the surrounding scopes are visible; its own definitions hide them. In a function only its own names are visible. */
enum { MP_ONNX_CALL_DEPTH_MAX = 64 }; /* maximum nesting depth of function calls and subgraphs */

typedef struct mp_onnx_binding {
    const char *name;
    const Onnx__AttributeProto *attribute;
} mp_onnx_binding;

typedef struct mp_onnx_scope {
    const struct mp_onnx_scope
        *outer; /* scope that contains the call or the control operator; NULL: this scope is the main graph */
    const struct mp_onnx_scope *visible; /* for a subgraph: the scope that resolves names which the subgraph does not define */
    int depth, region;
    const mp_onnx_function *
        function; /* the called function, also for scopes of subgraphs within the function; NULL: the scope is in no function */
    const char
        *prefix; /* prefix of the names of new tensors and operators; NULL: names are used unchanged, as in the main graph */
    mp_names *tensors; /* map from the inputs of a function to tensors of the model; MP_ONNX_LEFT_OUT for an input that the call
                          omits. NULL outside of functions */
    const mp_onnx_binding *attributes; /* the attributes that the call states for the function */
    size_t n_attributes;
} mp_onnx_scope;
static inline void mp_onnx_scope_free(mp_onnx_scope *scope)
{
    mp_names_free(scope->tensors);
}

enum { MP_ONNX_LEFT_OUT = -2 };

/* The state of adding the nodes of one file to a model. */
typedef struct mp_onnx_builder {
    mp_model *model;
    /* Adds nodes as operators of the region to which the scope belongs. */
    mp_status (*add_nodes)(struct mp_onnx_builder *b, const mp_onnx_scope *s, Onnx__NodeProto *const *nodes, size_t n);
    const Onnx__ModelProto *file;
    mp_onnx_functions functions;
    int64_t work, n_calls; /* work: number of elements and names that functions and subgraphs have added so far. n_calls: number
                              of function calls so far */
    mp_error *err;
} mp_onnx_builder;

/* Returns the text s, or "" if s is NULL. */
const char *mp_onnx_text(const char *s);
/* Adds to the count of work that a small file can multiply by functions and subgraphs. MP_PARSE: the count exceeds its
 * limit. */
mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work);

/* Finds the tensor of the model that has a name in this scope. If the name is new, creates the tensor. If the call of the
 * function omits the tensor, *index is -1. MP_PARSE, MP_NOMEM. */
mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);
/* Finds the tensors that a list of names denotes. Release *out with mp_free. */
mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out);
/* Creates a tensor named PREFIX/NAME, to which `name` refers in this scope. */
mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);

/* Fails if tensor `index`, defined as `name` in a subgraph, was renamed because the name was in use already. The values of a
 * tensor are found in the file by its name, which would then fail. MP_UNSUPPORTED, MP_NOMEM. */
mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index);

/* Returns the attribute with this name; NULL: the node has no such attribute. */
const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name);

/* True for those of ONNX's control operators that a model can represent: If, Loop and Scan. */
bool mp_onnx_is_control(const char *domain, const char *kind);

/* Adds a node that has subgraphs as a control operator, and its subgraphs as regions of the model (estimator/model/model.h).
 * MP_PARSE: a subgraph is missing, is nested too deeply, or has two tensors with the same name. MP_NOMEM. */
mp_status mp_onnx_add_control(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings);

/* Adds every node of the graph to the model, which already has the graph's inputs and initializers. A node that calls a
 * function of the file is replaced by the function's nodes, unless the registry has the operator itself. `budget` provides
 * memory for decoding fields that protobuf-c does not decode. MP_PARSE, MP_UNSUPPORTED: a node is malformed or not
 * supported; the message names it. MP_NOMEM. */
mp_status mp_onnx_nodes(mp_model *model, const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_error *err);

/* Adds the inputs of the graph that are not initializers. Sets their element type, and their shape if every dimension is
 * fixed (otherwise the rank is -1). Their role is initially MP_ROLE_DATA. MP_PARSE: an input is malformed. MP_UNSUPPORTED:
 * an input is not a tensor. MP_NOMEM. */
mp_status mp_onnx_inputs(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* Sets the shape of every input; the roles must be known. Also records the declared shapes of other tensors. MP_INVALID: an
 * option names an unknown dimension, or the file does not permit the batch. MP_PARSE: a dimension remains unknown. MP_NOMEM. */
mp_status mp_onnx_bind(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* True if the name of a symbolic dimension means the batch: "N", "batch_size". */
bool mp_onnx_is_batch_name(const char *name);

/* A function that receives one metadata entry. The texts are valid during the call. If it returns another status than MP_OK,
 * the reading ends. */
typedef mp_status (*mp_onnx_entry_taker)(void *data, const char *key, const char *value);

/* Calls `take` for every metadata entry of a message. onnx_scan.c has stored these entries under field number `id`. MP_PARSE,
 * MP_NOMEM. */
mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err);

/* Adds module prefixes to the names of operators and their outputs: "linear_3" becomes "/blocks.0/blocks.0.fc/linear_3". A
 * look-up by the file's name still finds the tensor. Also records for each operator the function call in the program, and
 * for each tensor the source line. Names that already contain modules are unchanged, and so are names of constants and of
 * model outputs. Adds contiguous copies that the graph lacks (mp_onnx_copies_add). Call after the outputs are declared.
 * MP_PARSE: the metadata are damaged. MP_NOMEM. O(metadata). */
mp_status mp_onnx_scopes_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_error *err);

/* The function calls that the nodes of a graph record, collected to find contiguous copies that the graph lacks. */
typedef struct mp_onnx_copies mp_onnx_copies;

/* Creates an empty collection of calls. The graph must outlive it. On any status, release *out with mp_onnx_copies_free (NULL
 * is allowed). MP_NOMEM. */
mp_status mp_onnx_copies_new(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_copies **out, mp_error *err);
void mp_onnx_copies_free(mp_onnx_copies *copies);
MP_OWNER(mp_onnx_copies_free, mp_onnx_copies)

/* Adds a node and the record of its call (metadata entry pkg.torch.onnx.fx_node). MP_NOMEM. */
mp_status mp_onnx_copies_take(mp_onnx_copies *copies, size_t node, const char *record);

/* Adds an Identity with the attribute `copies` for each contiguous copy that the calls read, and makes their operators read
 * the copies. Identity operators that are such copies get the attribute. The order of operators is then no longer valid.
 * MP_NOMEM. O(operands). */
mp_status mp_onnx_copies_add(mp_onnx_copies *copies);

/* The names of the calls that the nodes of a graph record, collected to find calls that the exporter has merged. */
typedef struct mp_onnx_calls mp_onnx_calls;

/* Creates an empty collection. On any status, release *out with mp_onnx_calls_free (NULL is allowed). MP_NOMEM. */
mp_status mp_onnx_calls_new(mp_onnx_calls **out, mp_error *err);
void mp_onnx_calls_free(mp_onnx_calls *calls);
MP_OWNER(mp_onnx_calls_free, mp_onnx_calls)

/* Adds the record of a node's call (metadata entry pkg.torch.onnx.fx_node). MP_NOMEM. */
mp_status mp_onnx_calls_take(mp_onnx_calls *calls, const char *record);

/* Counts the calls that the exporter has merged with equal calls, as doubts of the model. MP_PARSE: the metadata are damaged.
 * MP_NOMEM. O(calls + metadata of values). */
mp_status mp_onnx_calls_doubt(mp_onnx_calls *calls, mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget);

/* Separates tensors that PyTorch's older exporter has merged because their values were equal. The exporter wrote each merged
 * tensor as an Identity of another tensor. Parameters and statistics among the merged tensors become initializers again. Call
 * before roles are chosen. MP_NOMEM. O(operands). */
mp_status mp_onnx_separate(mp_model *model, mp_error *err);
/* Separates running statistics from parameters with which an exporter has merged them. Each batch normalization that reads a
 * parameter as a running statistic gets a buffer of its own. MP_NOMEM. O(operands). */
mp_status mp_onnx_separate_statistics(mp_model *model, mp_error *err);

typedef enum mp_onnx_origin {
    MP_ONNX_ORIGIN_UNSAID,
    MP_ONNX_ORIGIN_PARAMETER,
    MP_ONNX_ORIGIN_OF_PARAMETERS, /* the exporter computed the tensor from parameters: a transpose, or rows of an embedding */
    MP_ONNX_ORIGIN_OF_STATE, /* the exporter computed the tensor from named tensors; without a signature it is unknown whether
                                they are parameters or buffers */
    MP_ONNX_ORIGIN_BUFFER,
    MP_ONNX_ORIGIN_CONSTANT,
    MP_ONNX_ORIGIN_OF_CONSTANTS /* the exporter computed the tensor, but not from parameters: a mask, zeros, sines */
} mp_onnx_origin;

typedef struct mp_onnx_origins {
    mp_onnx_origin *of; /* per tensor of the model: its origin */
    int folded_norms;   /* number of batch normalizations of the program that the exporter has folded into other operators */
    bool is_newer;      /* true if PyTorch's newer exporter wrote the file */
    bool is_unsigned;   /* true if PyTorch's newer exporter wrote the file and a later tool removed the signature */
} mp_onnx_origins;

/* True if a convolution's filter, or the weight of a Gemm, has a name that the exporter makes for folded results. *is_norm: the
 * bias of the convolution has such a name too, so a batch normalization was folded. Otherwise the weight was computed, as by
 * weight normalization. O(1). */
bool mp_onnx_has_folded_filter(const mp_model *model, const mp_operator *op, bool *is_norm);

/* Reads the metadata that PyTorch's newer exporter writes: the program's inputs by kind
 * (`pkg.torch.export.ExportedProgram.graph_signature`), the kind of an initializer, and the names from which constant
 * folding created it (`pkg.onnxscript.optimizer.folded_from`). Without the signature, parameters and buffers cannot be
 * distinguished by their names; the origin of a tensor computed from a named tensor is then OF_STATE. In a file without
 * metadata all origins are UNSAID. Folded normalizations are then recognised by the names that exporters give to folded
 * weights. If the file lacks parameters or contains them twice, they become doubts of the model (doubts.h). MP_PARSE: the
 * metadata are malformed. MP_NOMEM. On MP_OK release *out with mp_onnx_origins_free. O(metadata). */
mp_status mp_onnx_origins_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_onnx_origins *out,
                               mp_error *err);
void mp_onnx_origins_free(mp_onnx_origins *origins); /* releases the members of the struct; a zeroed struct is allowed */

/* Sets role and role_reason of every declared input and initializer. (The role of an initializer is MP_ROLE_CONSTANT
 * before.) All operators must exist. The type of every input must be known, and its shape if it is fixed (rank -1: a
 * dimension is open). `origins` describes the initializers. With options->data, exactly the named inputs are data.
 * Floating-point parameters and buffers that match options->train are trained, whatever the rules say. MP_INVALID: a name is
 * not an input, or a pattern matches nothing. MP_NOMEM. O(operands + tensors times patterns). */
mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err);

/* Sets the role of a tensor. If training changes the tensor, its value is removed, so that it is not folded. */
void mp_onnx_set_role(mp_tensor *t, mp_role role, const char *reason);
/* Determines the role of an initializer. `state`: the names of the file's initializers are those of a state dictionary. */
void mp_onnx_choose_initializer(const mp_model *model, mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin, bool state);
/* True if the file contains the elements of the tensor and they are all equal. */
bool mp_onnx_is_uniform(const mp_tensor *t);
/* True if all operators that read the tensor read it as a weight. */
bool mp_onnx_is_weight(const mp_tensor *t, const mp_onnx_use *u);

/* Converts Constant operators that contain weights to initializers, if they have more elements than the weights among
 * initializers and inputs. Initializers must have roles; inputs must not have roles yet. MP_NOMEM. O(operands). */
mp_status mp_onnx_roles_adopt(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Converts Constant operators that match a pattern of --train to initializers. The pattern is compared with the constant's
 * name and with the names of tensors that are rearranged from it. A pattern with wildcards matches only weights. If there is
 * a match, sets *any. MP_NOMEM. */
mp_status mp_onnx_roles_adopt_named(mp_model *model, const mp_onnx_use *uses, const char *pattern, bool *any, mp_error *err);
/* Counts matrices that the file contains twice: PyTorch's older exporter has stored a transposed copy, although the original
 * matrix is also read, for example as an embedding. Call before roles are chosen, because values are required. MP_NOMEM.
 * O(such matrices times tensors). */
mp_status mp_onnx_roles_doubt_tied(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Counts the tensors that are read as weights but not trained. They become doubts of the model (doubts.h). MP_NOMEM. */
mp_status mp_onnx_roles_doubt_constants(mp_model *model, const mp_onnx_use *uses, mp_error *err);

/* Sets mp_tensor.given, and mp_tensor.mask of square boolean (or byte) tensors that no operator computes and whose value the
 * model does not store. The values are read from the file. If the file has no values for a buffer, it is assumed to be a causal
 * mask. If a Where writes a negative constant where this buffer is true, true means a hidden score; otherwise true means a kept
 * score. Roles must be set and the model inferred. MP_IO: the file cannot be read again. MP_NOMEM. O(tensors), plus the
 * elements of such masks in the file. */
mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err);

/* True if the tensor is a table of sines and cosines of positions (Vaswani et al. 2017, 3.5), which is computed, not
 * learned. Evidence: the row of position 0 consists of exactly half zeros and half ones, and all elements are in -1 .. 1. If
 * the elements are unknown, returns false. O(elements). */
bool mp_onnx_is_sines(const mp_tensor *tensor);

/* True if the name ends like an entry of a PyTorch state dictionary: "enc.weight", "bn.running_var". */
bool mp_onnx_names_entry(const char *name);
/* True if the name looks like an attribute of a nested module, such as "m.logit_scale": it contains a dot, and no component
 * that exporters add. */
bool mp_onnx_names_state(const char *name);
/* True if the name ends like a constant look-up table: "causal_mask", "rotary.cos_cached", "pixel_mean". */
bool mp_onnx_names_table(const char *name);
/* True if the name ends like a running statistic or a counter of batch normalization. */
bool mp_onnx_names_statistic(const char *name);
/* True if PyTorch's newer exporter generates such names for stored results: "val_162", "zeros_like", "unsqueeze_3". */
bool mp_onnx_names_result(const char *name);
/* True for names that the newer exporter gives to results of the listed operators, such as "slice_1". The list is separated by
 * blanks. */
bool mp_onnx_names_result_of(const char *name, const char *operators);
/* True if PyTorch's older exporter generates such names for results of constant folding: "onnx::Add_12". With `numbers` also
 * "12", which releases before 1.11 write. */
bool mp_onnx_names_folded(const char *name, bool numbers);
/* True if the names of all floating-point initializers are those of a state dictionary, and at least one belongs to an inner
 * module. (Names of the outermost module have no dot.) PyTorch's older exporter writes such files, with constants as
 * operators. Call before roles are chosen. O(tensors). */
bool mp_onnx_is_state_dictionary(const mp_model *model);
/* True if a name is weight, bias, running_mean or running_var, and the model has both statistics of the same module. */
bool mp_onnx_names_frozen_norm(const mp_model *model, const char *name);
