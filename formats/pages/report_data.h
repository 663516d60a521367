/* report_data.h - what a report draws, as JSON. Private to formats/. */
#pragma once

#include "formats/curves/chart.h"
#include "formats/json/json.h"
#include "formats/pages/report_page.h"

/* The data of a page: columns, layers, tensors, curves. Released with json_decref. NULL: no memory. */
json_t *mp_report_data(const mp_report_request *request, const mp_timeline_columns *columns);
