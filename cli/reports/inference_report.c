/* inference_report.c - says that a file is an inference graph, and how to export one for training. */
#include "cli/reports/inference_report.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"

/* Adds "2 dropouts are switched off" to a list. */
static void add(char *text, size_t size, int n, const char *what, const char *is, const char *are)
{
    const size_t used = strlen(text);
    if (n) snprintf(text + used, size - used, "%s%d %s%s %s", used ? ", " : "", n, what, n > 1 ? "s" : "", n > 1 ? are : is);
}

void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const int norms = keeps ? 0 : form->norms;
    char found[512] = "";
    add(found, sizeof found, form->folded_norms, "batch normalization", "is folded into another operator",
        "are folded into other operators");
    add(found, sizeof found, form->dropouts, "dropout", "is switched off", "are switched off");
    add(found, sizeof found, norms, "batch normalization",
        "is in inference mode and trains by the batch's statistics (--keep-inference-norms: by the running ones)",
        "are in inference mode and train by the batch's statistics (--keep-inference-norms: by the running ones)");
    if (!*found || atomic_flag_test_and_set(&said)) return;
    if (form->folded_norms || form->dropouts)
        complain("%s: warning: an inference graph, so a training step is larger than what is said of it: %s; export it with "
                 "dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False",
                 path, found);
    else
        complain("%s: warning: %s", path, found);
}
