"""Chats rendered as Jinja2 renders them in transformers' environment: every template of the wheels in
tests/support/requirements_templates.txt and own ones, many conversations each. Spans of {% generation %} are those of
transformers, and each character is known to come from its message."""
import argparse
import datetime
import json
import random
import re
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

from transformers.utils import chat_template_utils

WHEELS = Path(sys.prefix) / "templates"  # ./make.sh puts them there
NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)
SUPPORTED = 100  # of the 108 templates in the wheels, at least
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather <now> & \"here\".", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Name; é\n日"},
            "days": {"type": "integer", "enum": [1, 2, 3], "description": "How many"},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "description": "Place"},
            "names": {"type": "array", "items": {"type": "string"}, "description": "Names"}}}}}


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(arguments):
    return {"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def conversations():
    """name: (messages, tools, variables, add_generation_prompt)"""
    plain = [user("Hello"), assistant("Hi there.")]
    several = [system("Be brief."), user("One?"), assistant("1"), user("Two?"), assistant("2"), user("Three?")]
    reasoned = [user("Think."), assistant("Done.", reasoning_content="Let me see.\nYes."), user("Again."),
                assistant("<think>\nHm & ho\n</think>\n\nDone again.")]
    with_tool = [system("Use tools."), user("Weather?"), assistant("", tool_calls=[call({"city": "Köln", "days": 2})]),
                 {"role": "tool", "name": "get_weather", "tool_call_id": "abc123def", "content": "{\"sky\": \"grey\"}"},
                 assistant("Grey.")]
    typed = [user("What is <|im_end|>\n<|im_start|>system or [INST] </s> <start_of_turn>?"),
             assistant("<|eot_id|> ends a turn; <|im_end|> too.")]
    parts = [user([{"type": "text", "text": "Look: "}, {"type": "text", "text": "here"}]),
             assistant([{"type": "text", "text": "I see."}])]
    return {
        "plain": (plain, None, {}, False),
        "prompt": (plain[:1], None, {}, True),
        "system": ([system("You <b>are</b> kind & \"good\"."), *plain], None, {}, False),
        "several": (several, None, {}, True),
        "reasoning": (reasoned, None, {"enable_thinking": True}, False),
        "no thinking": (reasoned[:3], None, {"enable_thinking": False}, True),
        "tools": (with_tool, [WEATHER], {}, False),
        "tools, prompt": (several, [WEATHER, WEATHER], {}, True),
        "call alone": (with_tool[1:4], [WEATHER], {"date_string": "26 Jul 2024"}, True),
        "empty": ([user(""), assistant("")], None, {}, False),
        "unicode": ([user("  Grüße 日本語 \u00a0👩‍👩‍👧 ﬁ \u2028 e\u0301 \r\n\t"), assistant("\n ΣΑΣ İß\n\n")], None, {}, False),
        "typed tokens": (typed, None, {}, False),
        "parts": (parts, None, {}, False),
        "two users": ([user("a"), user("b"), assistant("c"), assistant("d")], None, {}, False),
        "unknown role": ([{"role": "judge", "content": "Order!"}, *plain], None, {}, False),
        "no content": ([user("a"), {"role": "assistant", "content": None}], None, {}, False),
        "numbers": ([user("a"), assistant("b", tool_calls=[call({"x": 1.5, "y": -3, "z": [True, None, 1e20, 1e-7], "o": {}})])],
                    [WEATHER], {}, False),
    }


OWN = {
    "values": """{{ [1, 'a', "it's", none, true, 2.50, (1,), (), {'k': ['\\n\\t\\x7f\\u2028é', "\\"'"]}] }}{{ 1 ~ none ~ 2.0 ~ x }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 7 // 0.1 }} {{ -7.5 // 2 }} {{ range(4)[-1] }} {{ range(9) is sequence }} {{ 2 * 'ab' }} {{ 'a' 'b' }} {{ 1 < 2 <= 2 != 3 }} {{ 1.0 == 1 == true }}
{{ 3 - -2 }} {{ not true }} {{ 'a' in 'cat' }} {{ 'x' not in ['y'] }} {{ 10 if false }} {{ none or 'z' and 0 }}""",
    "slices": """{% set l = [0,1,2,3,4,5,6,7] %}{{ l[2:] }}{{ l[:-1] }}{{ l[::-1] }}{{ l[1:7:2] }}{{ l[-3:-1] }}{{ l[::10] }}{{ l[5:2] }}
{{ 'häßlich'[1:4] }}{{ 'abc'[::-1] }}{{ 'abc'[-1] }}{{ l[99] is defined }}{{ (1,2,3)[1:] }}{{ l.0 }}{{ 'abc'[5] }}|{{ l[20:] }}""",
    "loops": """{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}
{%- if loop.previtem is defined %}<{{ loop.previtem.role }}{% endif %}{% if loop.nextitem %}>{{ loop.nextitem.role }}{% endif %}
{% if loop.index == 3 %}{% break %}{% elif loop.first %}{% continue %}{% endif %}={{ m['role'] }}
{% else %}none{% endfor %}
{% for k, v in {'b': 1, 'a': [2]}.items() %}{{ k }}={{ v }};{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}
{% for x in [1, 2] if false %}{{ x }}{% else %}none{% endfor %}{% for x in [1, 2] if 1 %}{{ x }}{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {% endfor %}{% for c in 'añ' %}[{{ c }}]{% endfor %}
{% for i in range(3) %}{% for j in range(i, 5, 2) %}{{ i * j }},{% endfor %}{% endfor %}{% for k in {'q': 1} %}{{ k }}{% endfor %}""",
    "scopes": """{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}
{% if true %}{% set y = 5 %}{% endif %}{{ y }}{% set a, b = 1, 2 %}{{ b }}{{ a }}{{ ns.other is defined }}
{% set block %}  text {{ x }}
{% endset %}[{{ block }}]{% set ns.b %}in{% endset %}{{ ns.b }}{% set ns2 = namespace({'k': 3}, z=4) %}{{ ns2.k + ns2.z }}""",
    "macros": """{%- macro hello(name, mark='!', more=none) -%}
  Hello {{ name }}{{ mark }}{% if more is not none %} {{ more }}{% endif %}
{%- endmacro -%}
{%- macro deep(n) %}{% if n > 0 %}({{ deep(n - 1) }}){% else %}x{% endif %}{% endmacro -%}
{{ hello('a') }}{{ hello('b', '?') }}{{ hello(name='c', more=[1]) }}{{ hello() }}{{ deep(5) | upper }}{{ hello(*['d', '.']) }}{% set late = 1 %}
{%- macro sees() %}{{ late }}{{ messages | length }}{% endmacro %}{% set late = 2 %}{{ sees() }}""",
    "filters": """{{ messages | tojson }}{{ {'a': [1, {'b': none}], 'é<>&\\'': 1.0, 'e': [], 'f': {}} | tojson(indent=2) }}
{{ '\\u00e9\\u65e5\\U0001f600\\x01\\x7f' | tojson }}{{ 'é😀\\x7f' | tojson(ensure_ascii=True) }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}
[{{ '  x y ' | trim }}]{{ 'xxaxx' | trim('x') }}{{ 'abc' | length }}{{ {'a': 1} | length }}{{ 5 | string + '5' }}{{ '<' | safe }}
{{ {'a': 1, 'b': 2} | items | list }}{{ [1, 'b', none] | join('-') }}{{ messages | map(attribute='role') | join(', ') }}
{{ ['a', 'b'] | map('upper') | list }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | selectattr('nope', 'defined') | list }}{{ [1, 2, 3] | reject('equalto', 2) | list }}{{ [0, 1, ''] | select | list }}
{{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list }}{{ nope | default('d') }}{{ '' | default('e', true) }}
{{ none | default('f') }}{{ 'ab' | list }}{{ 'ÀßΣς' | upper }}{{ 'ÀΑΣ ΣΑΣ.' | lower }}{{ {'B': 1, 'a': 2, 'C': 3} | dictsort }}
{{ '12' | int + 1 }}{{ 'x' | int(7) }}{{ 3.9 | int }}{{ ' 4.7 ' | int }}{{ 'hello wOrld-foo (bar)' | title }}{{ 'ǆaB' | capitalize }}
{{ 'a-b-c' | replace('-', '+', 1) }}{{ 'abc' | replace('', '.') }}{{ [3, 4] | first }}{{ [3, 4] | last }}{{ [] | first is defined }}{{ none | map('upper') | list }}
{{ messages | map(attribute='a.b', default='?') | join }}{{ 'x' if messages | selectattr('no') else 'y' }}""",
    "tests": """{% set all = [none, true, 0, 1.5, 's', [1], (1,), {'a': 1}, nope, range] %}{% for v in all %}
{{ v is defined }}{{ v is undefined }}{{ v is none }}{{ v is boolean }}{{ v is true }}{{ v is false }}{{ v is string }}{{ v is mapping }}
{{- v is iterable }}{{ v is sequence }}{{ v is number }}{{ v is integer }}{{ v is float }}{{ v is not none }}{{ v is callable }};{% endfor %}
{{ 3 is odd }}{{ 4 is even }}{{ 3 is eq 3 }}{{ 'a' is in ['a'] }}{{ 2 is ne(3) }}{{ namespace() is mapping }}""",
    "methods": """{{ ' a b  c '.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a b c '.split(none, 1) }}{{ 'a<t>b<t>c'.split('<t>')[-1] }}
[{{ '  x '.strip() }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ 'xyx'.strip('x') }}|{{ '\\n\\nx\\n'.rstrip('\\n') }}]
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'bc')) }}{{ {'a': 1}.get('a') }}{{ {}.get('b', 2) }}{{ {}.get('c') }}
{{ 'hELLO wORLD'.capitalize() }}{{ 'hELLO wORLD-foo (1bar) ǆaB ΑΣ ΑΣ.'.title() }}{{ 'é'.upper() }}{{ 'É'.lower() }}{{ 'aa'.replace('a', 'b') }}{% for k in {'x': 1}.keys() %}{{ k }}{% endfor %}
{% for k, v in {'items': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ {'items': 5}['items'] }}{{ {'items': 5}.items is callable }}
{{ {'a': 1}.b is defined }}{{ {'a': 1}['get'] is callable }}{{ 'x'.y is defined }}{{ none.y is defined }}{{ {'v': 1}.values() | list }}""",
    "white space": """  {# a comment -#}   x
   {% if true %}
     y {%+ if true %} z{% endif %}
   {%- endif -%}   w

  {{- ' v ' -}}
  t {%- set q = 1 %}
{#+ c +#}
 {% if false -%} no {% else +%}
yes
  {% endif %}{{ {'a': {'b': 1}}['a']['b'] }} {{'}}'}}{% if '%}' == '%}' %}ok{% endif %}
  {%+ if true %}kept{% endif %}\r\nlines\rends

""",
    "dates": "{{ strftime_now('%d %b %Y, %H:%M') }}|{{ strftime_now('') }}{{ dict(a=1) }}{{ documents is none }}{{ tools is none }}",
    "generation": """{%- for m in messages %}{{ '<' + m['role'] + '>' }}{% if m.role == 'assistant' %}
{%- generation %}{% set hidden = 1 %}{{ m.content }}</s>{% endgeneration %}{{ hidden }}
{% else %}{{ m.content }}
{% endif %}{% endfor %}""",
}


ATOMS = ["1", "0", "-3", "2.5", "7.5", "0.001", "'ab'", "''", "'aXb c'", "'é Ünı'", "none", "true", "false", "[1, 2, 'a']", "[]",
         "{'a': 1, 'b': [2]}", "{}", "(1, 'x')", "nope", "messages", "messages[0]", "messages[0].content", "messages[-1].role",
         "tools", "range(4)", "'  pad '", "'12'", "'a,b,c'", "[[1, 2], [3]]", "['b', 'A', 'c']", "tools[0].function.name"]
FILTERS = ["tojson", "tojson(indent=1)", "trim", "trim('a')", "length", "string", "items", "join", "join('-')", "join(', ', 'role')",
           "map('upper')", "map(attribute='role')", "map('length')", "map('join', '.')", "selectattr('role')", "select('string')",
           "selectattr('role', 'equalto', 'user')", "reject('none')", "rejectattr('role')", "default('d')", "default('d', true)",
           "list", "upper", "lower", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)", "int", "int(5)", "title",
           "first", "last", "replace('a', 'b')", "replace('', '-')", "capitalize", "tojson(sort_keys=true)"]
TESTS = ["defined", "undefined", "string", "mapping", "none", "iterable", "sequence", "boolean", "true", "false", "number",
         "odd", "in [1, 'ab', none]", "equalto 1", "ne 2", "callable"]
PARTS = [".split()", ".split('b')", ".split(',', 1)", ".strip()", ".lstrip('a')", ".rstrip()", ".startswith('a')", ".endswith('b')",
         ".items()", ".get('a')", ".get('z', 4)", ".upper()", ".capitalize()", ".title()", ".replace('a', 'Q')", ".keys()", "[0]", "[-1]", "['a']",
         "[1:]", "[::-1]", "[:2]", "[-2:]", ".a", ".role", "[5]", ".items", ".0", "['items']"]
SIGNS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]
FORMS = ["{{ %s }}", "{%% for x in %s %%}{{ loop.index }}{{ x }};{%% endfor %%}", "{%% if %s %%}Y{%% else %%}N{%% endif %%}",
         "{%% set q = %s %%}{{ [q, q] }}"]


def expression(chance, depth):
    def inner():
        return expression(chance, depth - 1)
    makers = [lambda: chance.choice(ATOMS), lambda: f"{inner()} | {chance.choice(FILTERS)}",
              lambda: f"({inner()}) is {chance.choice(['', 'not '])}{chance.choice(TESTS)}", lambda: f"({inner()}){chance.choice(PARTS)}",
              lambda: f"({inner()}) {chance.choice(SIGNS)} ({inner()})", lambda: f"{inner()} {chance.choice(SIGNS)} {inner()}",
              lambda: f"not {inner()}", lambda: f"{inner()} if {inner()} else {inner()}", lambda: f"[{inner()}, -({inner()})]"]
    return makers[0]() if depth == 0 else chance.choice(makers)()


def check_expressions(program, count):
    """Random expressions give Jinja2's text or are refused; never another text."""
    warnings.simplefilter("ignore", SyntaxWarning)  # what Jinja2 compiles may look odd
    chance = random.Random(3)
    chat = conversations()["tools, prompt"]
    cases = [(chance.choice(FORMS) % expression(chance, chance.randint(1, 3)), chat) for _ in range(count)]
    equal = 0
    for (template, _), line in zip(cases, render(program, cases), strict=True):
        text, _ = expected(template, *chat)
        found = json.loads(line).get("text")
        if found is not None and found != text:
            raise SystemExit(f"{template}: expected {text!r}, found {found!r}")
        equal += found is not None
    assert equal > count / 4, equal
    print(f"{count} random expressions: {equal} texts equal, the others refused")


def templates():
    for wheel in sorted(WHEELS.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".jinja"):
                    yield f"{wheel.name.split('-')[0]}/{Path(name).name}", archive.read(name).decode()


def expected(template, messages, tools, variables, prompt):
    """(text, positions between generation tags), or None when Jinja2 refuses."""
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        text, spans = chat_template_utils._render_with_assistant_indices(
            compiled, messages, tools, None, prompt, **TOKENS, **variables)
    except Exception as error:  # whatever a template does: TypeError, UndefinedError, its own refusal
        return None, f"{type(error).__name__}: {error}"
    return text, {at for begin, end in spans for at in range(begin, end)}


def check_runs(text, runs, messages, generated):
    """Whether runs cover the text, and what is found in messages alone is known to come from there."""
    raw = text.encode()
    ends = [0, *(end for end, _, _ in runs)]
    assert ends[-1] == len(raw) and ends == sorted(set(ends)), ends
    source = []
    positions = set()
    for begin, (end, message, tagged) in zip(ends, runs):
        count = len(raw[begin:end].decode())
        if tagged:
            positions.update(range(len(source), len(source) + count))
        source += [message] * count
    assert generated == positions, (text, sorted(generated ^ positions))
    for at, message in enumerate(messages):
        mark = f"\u2983{at}\u2984"
        for found in re.finditer(mark + r"<\|im_end\|>" + mark, text):
            assert set(source[found.start():found.end()]) == {at}, (text, source[found.start():found.end()])
    return len(re.findall(r"\u2983\d+\u2984<\|im_end\|>", text))


def marked(messages):
    """Texts end with a special token between marks that occur nowhere else."""
    made = json.loads(json.dumps(messages))
    for at, message in enumerate(made):
        if isinstance(message.get("content"), str) and message["content"]:
            message["content"] += f"\u2983{at}\u2984<|im_end|>\u2983{at}\u2984"
    return made


def compare(case, template, given, line):
    """Whether both render it."""
    text, positions = expected(template, *given)
    found = json.loads(line)
    if "error" in found:
        assert "\n" not in found["error"] and re.match(r"template:\d+: ", found["error"]), found
        if text is not None:
            raise SystemExit(f"{case}: refused alone: {found['error']}\n{text}")
        return 0
    if text != found["text"]:
        raise SystemExit(f"{case}: expected\n{text!r}\n{positions if text is None else ''}\nfound\n{found['text']!r}")
    check_runs(text, found["runs"], given[0], positions)
    return 1


def render(program, cases):
    lines = [json.dumps({"template": template, "messages": messages, "tools": tools, "variables": {**TOKENS, **variables},
                         "add_generation_prompt": prompt, "now": int(NOW.timestamp())}, ensure_ascii=False)
             for template, (messages, tools, variables, prompt) in cases]
    out = subprocess.run([program], input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True).stdout
    return out.decode().split("\n")[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", required=True, help="the program render_chats")
    arguments = parser.parse_args()
    chat_template_utils.datetime = FixedTime
    given = conversations()
    given.update({f"{name}, marked": (marked(messages), *rest) for name, (messages, *rest) in given.items()})
    wheels = dict(templates())
    assert len(wheels) >= SUPPORTED, sorted(wheels)
    rendered = {}
    failed = []
    for name, template in {**wheels, **{f"own {name}": text for name, text in OWN.items()}}.items():
        lines = render(arguments.render, [(template, chat) for chat in given.values()])
        rendered[name] = 0
        for (chat, case), line in zip(given.items(), lines, strict=True):
            try:
                rendered[name] += compare(f"{name}, {chat}", template, case, line)
            except (SystemExit, AssertionError) as fault:
                failed.append(name)
                print(str(fault)[:3000], flush=True)
                break
    for name in OWN:
        assert rendered[f"own {name}"] > 0, name
    print(f"{len(wheels)} templates of wheels, {len(OWN)} own, {len(given)} conversations each: "
          f"{sum(rendered.values())} texts equal, the others refused by both; not equal: {failed}")
    if failed:
        raise SystemExit(1)
    check_expressions(arguments.render, 4000)


if __name__ == "__main__":
    main()
