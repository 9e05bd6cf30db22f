// Starts `ptxkit lsp` for PTX files and ends it with the editor, and `ptxkit debug --dap` for each debugged launch.
const { debug, languages, window, workspace, DebugAdapterExecutable } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

// Programs that PTX is compiled from. The server is told only that they are open, so it is no formatter and no completer of theirs.
const SOURCES = { scheme: "file", pattern: "**/*.{cu,cuh,cpp,h,hpp,py}" };

let client;

function isSource(document) {
  return languages.match(SOURCES, document) > 0;
}

function opened(document) {
  if (!isSource(document)) return;
  const { uri, languageId, version } = document;
  client.sendNotification("textDocument/didOpen", { textDocument: { uri: uri.toString(), languageId, version, text: document.getText() } });
}

function closed(document) {
  if (isSource(document)) client.sendNotification("textDocument/didClose", { textDocument: { uri: document.uri.toString() } });
}

async function madeBy(document, position) {
  const textDocument = { uri: document.uri.toString() };
  const found = await client.sendRequest("textDocument/definition", { textDocument, position });
  return client.protocol2CodeConverter.asDefinitionResult(found);
}

// The debugger is the same program as the server, with other arguments.
function adapter() {
  const [command, ...args] = workspace.getConfiguration("ptxkit").get("command");
  return new DebugAdapterExecutable(command, [...args.filter((one) => one !== "lsp"), "debug", "--dap"]);
}

async function activate(context) {
  const [command, ...args] = workspace.getConfiguration("ptxkit").get("command");
  context.subscriptions.push(debug.registerDebugAdapterDescriptorFactory("ptxkit", { createDebugAdapterDescriptor: adapter }));
  client = new LanguageClient("ptxkit", "ptxkit", { command, args }, { documentSelector: [{ language: "ptx" }] });
  try {
    await client.start();
    workspace.textDocuments.forEach(opened);
    context.subscriptions.push(
      workspace.onDidOpenTextDocument(opened),
      workspace.onDidCloseTextDocument(closed),
      languages.registerDefinitionProvider(SOURCES, { provideDefinition: madeBy })
    );
  } catch (error) {
    window.showErrorMessage(
      `ptxkit could not be started (${error.message}). Install it with: pip install 'ptxkit[lsp]', or set ptxkit.command.`
    );
  }
}

async function deactivate() {
  if (client) await client.stop();
}

module.exports = { activate, deactivate };
