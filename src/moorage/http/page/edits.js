// Commands to copy: a fix's edits, and how to get an object.

const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;

// A name as a shell takes it: those that Kubernetes allows need no quotes.
const word = (text) => (/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(text) ? text : quoted(text));

function named(edit) {
  const parts = edit.name.split("/");
  const kind = word(edit.kind.toLowerCase());
  return parts.length === 2
    ? `${kind} ${word(parts[1])} -n ${word(parts[0])}`
    : `${kind} ${word(edit.name)}`;
}

export const commandToGet = (kind, name) => `kubectl get ${named({ kind, name })} -o yaml`;

export function commandFor(edit) {
  if (edit.delete) return `kubectl delete ${named(edit)}`;
  if (edit.create)
    return `kubectl create -f - <<'EOF'\n${JSON.stringify(edit.create, null, 2)}\nEOF`;
  const patch = `--type=json -p ${quoted(JSON.stringify(edit.patch))}`;
  if (edit.recreate) {
    return [
      `kubectl get ${named(edit)} -o json`,
      `kubectl patch --local -f - ${patch} -o json`,
      "kubectl replace --force -f -",
    ].join(" \\\n  | ");
  }
  const where = edit.subresource ? ` --subresource=${word(edit.subresource)}` : "";
  return `kubectl patch ${named(edit)}${where} ${patch}`;
}
