# report.sh - report: one page, parsed, and where there is a browser shown, of plan.json and of a graph with hostile names.
holds report_plan sh -c "'$memplan' report mlp.onnx --plan plan.json -o report.html && cp report.html once.html &&
    '$memplan' report mlp.onnx --plan plan.json -o report.html && cmp once.html report.html"
holds report_keep_all "$memplan" report resnet50.onnx --batch 2 --no-curve -o keep_all.html
sed -e 's#"name": *"[^"]*"#"name": "</script><b>\\"x\\" \\\\ \&amp;"#' -e 's#"phase":#"source": "net.py:6: </script><i>", "phase":#' \
    chain.json > hostile_names.json
holds report_hostile_names "$memplan" report hostile_names.json --no-curve -o hostile.html
holds report_source_lines sh -c "grep -q 'class=.src.>net.py:6: &lt;/script&gt;&lt;i&gt;<' hostile.html && grep -q '.source.:.net.py:6: .u003c/script>' hostile.html"
holds report_budget sh -c "'$memplan' report fashion_cnn.onnx --batch 64 --budget floor+50% --no-curve -o budget.html && grep -q '<h2>Checkpoints' budget.html"
holds report_is_html sh -c "command -v python3 > /dev/null || exit 0
    python3 -B '$root/tests/cli/report_page.py' report.html keep_all.html hostile.html budget.html"
# In a browser: the tables and the curve are there; what is typed and turned is followed. Without one that starts, nothing is judged.
typed='$("search").value = "gradient"; $("search").dispatchEvent(new Event("input")); zoom(0.5, 1); document.body.dataset.view = view.join("-");'
sed "s#</body>#<script>$typed</script></body>#" report.html > typed.html
holds report_in_a_browser sh -c "command -v chromium > /dev/null || exit 0
    timeout 60 chromium --headless --no-sandbox --disable-gpu --dump-dom file://$work/report.html > shown.html 2> browser.log || exit 0
    grep -q '<td class=.n.>[0-9.]* [KM]iB</td>' shown.html && grep -q '<path d=.M' shown.html && grep -q '<canvas[^>]*height: 380px' shown.html &&
    grep -q '<i style=.left: [0-9.]*%; width' shown.html &&
    timeout 60 chromium --headless --no-sandbox --disable-gpu --dump-dom file://$work/typed.html > typed_shown.html 2>> browser.log || exit 1
    grep -q 'data-view=.0.5-' typed_shown.html &&
    test \$(grep -o '<td class=.n.>[0-9.]* [KM]*i*B</td>' typed_shown.html | wc -l) -lt \$(grep -o '<td class=.n.>[0-9.]* [KM]*i*B</td>' shown.html | wc -l)"
try report_no_file report mlp.onnx --plan plan.json
try report_ending report mlp.onnx --plan plan.json -o report.pdf
try report_two_plans report mlp.onnx --plan plan.json --budget 60% -o none.html
try report_impossible report mlp.onnx --batch 64 --budget 1MiB -o none.html
try report_lie report mlp.onnx --plan lie.json -o none.html
try report_unwritable report mlp.onnx --plan plan.json --no-curve -o no/such/folder.html
holds report_writes_nothing_on_failure test ! -e none.html
