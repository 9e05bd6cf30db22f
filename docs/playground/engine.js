// ptxkit in Python in WebAssembly: what the worker and the test of it start. `read` gives the bytes of a file of this folder.

import { Graphviz } from "./graphviz.js";
import { loadPyodide } from "./pyodide/pyodide.mjs";

export async function start(read) {
  const [python, graphviz, contents] = await Promise.all([loadPyodide(), Graphviz.load(), read("contents.json")]);
  const { wheels } = JSON.parse(new TextDecoder().decode(contents));
  const packages = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
  const archives = await Promise.all(wheels.map((name) => read(`wheels/${name}`)));
  for (const archive of archives) python.unpackArchive(archive, "wheel", { extractDir: packages });
  python.FS.writeFile(`${packages}/answers.py`, await read("answers.py"));
  python.runPython("import importlib; importlib.invalidate_caches()");
  const answers = python.pyimport("answers");
  const about = JSON.parse(answers.start((dot) => graphviz.layout(dot, "svg", "dot")));
  return { about, ask: (what, ...given) => JSON.parse(answers[what](...given)) };
}
