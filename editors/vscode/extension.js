// Starts `ptxkit lsp` for PTX files and ends it with the editor.
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate() {
  const [command, ...args] = workspace.getConfiguration("ptxkit").get("command");
  client = new LanguageClient("ptxkit", "ptxkit", { command, args }, { documentSelector: [{ language: "ptx" }] });
  try {
    await client.start();
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
