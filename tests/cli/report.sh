# report.sh - report: one page, parsed, and where there is a browser shown, of plan.json and of a graph with hostile names.
holds report_plan sh -c "'$memplan' report mlp.onnx --plan plan.json -o report.html && cp report.html once.html &&
    '$memplan' report mlp.onnx --plan plan.json -o report.html && cmp once.html report.html && grep -q '<title>.*: .* instead of ' report.html"
holds report_keep_all "$memplan" report resnet50.onnx --batch 2 --no-curve -o keep_all.html
sed -e 's#"name": *"[^"]*"#"name": "</script><b>\\"x\\" \\\\ \&amp;"#' -e 's#"phase":#"source": "net.py:6: </script><i>", "phase":#' \
    chain.json > hostile_names.json
holds report_hostile_names "$memplan" report hostile_names.json --no-curve -o hostile.html
holds report_source_lines sh -c "grep -q 'title=.step 1 of .*&#10;net.py:6: &lt;/script&gt;&lt;i&gt;&#10;' hostile.html && grep -q 'class=.src.>net.py:6: &lt;/script&gt;&lt;i&gt;<' hostile.html && grep -q '.source.:.net.py:6: .u003c/script>' hostile.html"
holds report_budget sh -c "'$memplan' report fashion_cnn.onnx --batch 64 --budget floor+50% --no-curve -o budget.html && grep -q '<h2>Checkpoints' budget.html"
# The plan of the page is a point beside the curve, a plan with copies too, which no curve of a report has.
holds report_shows_its_plan sh -c "python3 -c '
import json, re
page, plan = open(\"copied.html\").read(), json.load(open(\"copied.json\"))
data = json.loads(re.search(r\"<script[^>]*application/json[^>]*>(.*?)</script>\", page, re.S)[1])
extra = 100 * (plan[\"seconds\"] / plan[\"baseline_seconds\"] - 1)
assert data[\"peak\"] == plan[\"peak_bytes\"] and abs(data[\"plan_percent\"] - extra) < 1e-9 and \"Memory against time\" in page'"
# The picture of the page is the one of `timeline`, and keep-all is that of `estimate`, with fused updates too.
holds report_has_the_timeline sh -c "tooltips() { grep -o 'xlink:title=.*' \$1; } &&
    '$memplan' timeline mlp.onnx --plan plan.json --view memory -o same.svg && tooltips same.svg > same.txt && tooltips report.html | cmp same.txt -"
holds report_keep_all_is_estimate sh -c "
    for fuse in none backward forward; do
        '$memplan' report mlp.onnx --batch 64 --fuse \$fuse --no-curve -o fused.html && '$memplan' estimate mlp.onnx --batch 64 --fuse \$fuse > fused.txt &&
        peak=\$(sed -n 's/^  peak  *\([0-9.]* [A-Za-z]*\) .*/\1/p' fused.txt) && grep -q \"<b>\$peak</b><span>peak</span>\" fused.html &&
        grep -q \"<title>Memory over the step: \$peak with everything kept</title>\" fused.html || exit 1
    done"
holds report_is_html sh -c "command -v python3 > /dev/null || exit 0
    python3 -B '$root/tests/cli/pages/report_page.py' report.html keep_all.html hostile.html budget.html copied.html"
# In a browser: report_page.js acts like a reader and checks the page. If no browser starts, nothing is checked.
for page in report keep_all hostile copied; do { sed '/<\/body>/,$d' $page.html; echo '<script>'; cat "$root/tests/cli/pages/report_page.js"; echo '</script></body></html>'; } > judged_$page.html; done
holds report_in_a_browser sh -c "command -v chromium > /dev/null || exit 0
    for page in report keep_all hostile copied report:--window-size=420,900; do
        window=\${page#*:}; page=\${page%:*}
        timeout 60 chromium --headless --no-sandbox --disable-gpu \$(test \$window = \$page || echo \$window) --dump-dom file://$work/judged_\$page.html > shown_\$page.html 2> browser.log || exit 0
        grep -q '<body data-faults=.none.' shown_\$page.html || { grep -o 'data-faults=[^>]*' shown_\$page.html; exit 1; }
    done"
try report_no_file report mlp.onnx --plan plan.json
try report_ending report mlp.onnx --plan plan.json -o report.pdf
try report_two_plans report mlp.onnx --plan plan.json --budget 60% -o none.html
try report_impossible report mlp.onnx --batch 64 --budget 1MiB -o none.html
try report_lie report mlp.onnx --plan lie.json -o none.html
try report_unwritable report mlp.onnx --plan plan.json --no-curve -o no/such/folder.html
holds report_writes_nothing_on_failure test ! -e none.html
