// The templates. What all of them refuse comes first in each; a system message is the first one where that matters.
#include "text/chat/named_templates.h"

#include <algorithm>
#include <initializer_list>

namespace hone::text {
namespace {

constexpr const char* kChecked = R"(
{%- if tools %}{{ raise_exception('this chat template has no place for tools') }}{% endif %}
{%- for m in messages %}
{%- if m.tool_calls %}{{ raise_exception('this chat template has no place for tool calls') }}{% endif %}
{%- if m.content is not string %}{{ raise_exception('this chat template expects a text as content') }}{% endif %}
{%- endfor %}
)";

constexpr const char* kThreeRoles = R"(
{%- for m in messages %}
{%- if m.role not in ['system', 'user', 'assistant'] or (m.role == 'system' and not loop.first) %}
{{- raise_exception('this chat template has no place for the role ' ~ m.role ~ ' of message ' ~ loop.index) }}
{%- endif %}
{%- endfor %}
)";

constexpr const char* kUserBehindSystem = R"(
{%- if messages[0].role == 'system' and (messages|length == 1 or messages[1].role != 'user') %}
{{- raise_exception('this chat template expects the user after the system message') }}
{%- endif %}
)";

constexpr const char* kAlpaca = R"(
{{- bos_token }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '### Instruction:\n' ~ m.content|trim ~ '\n\n' }}
{%- elif m.role == 'assistant' %}{{ '### Response:\n' ~ m.content|trim ~ eos_token ~ '\n\n' }}
{%- else %}{{ m.content|trim ~ '\n\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}
)";

constexpr const char* kChatMl = R"(
{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content|trim ~ '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
)";

// The system message has no turn of its own: it begins the user's first one.
constexpr const char* kGemma = R"(
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for m in messages %}
{%- if m.role == 'system' %}{% set ns.system = m.content|trim ~ '\n\n' %}
{%- elif m.role == 'user' %}{{ '<start_of_turn>user\n' ~ ns.system ~ m.content|trim ~ '<end_of_turn>\n' }}
{%- set ns.system = '' %}
{%- else %}{{ '<start_of_turn>model\n' ~ m.content|trim ~ '<end_of_turn>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}
)";

constexpr const char* kLlama3 = R"(
{{- bos_token }}
{%- for m in messages %}
{{- '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\n\n' ~ m.content|trim ~ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
)";

// An answer follows the user's turn without more: there is no generation prompt.
constexpr const char* kMistral = R"(
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for m in messages %}
{%- if m.role == 'system' %}{% set ns.system = m.content|trim ~ '\n\n' %}
{%- elif m.role == 'user' %}{{ '[INST] ' ~ ns.system ~ m.content|trim ~ ' [/INST]' }}
{%- set ns.system = '' %}
{%- else %}{{ ' ' ~ m.content|trim ~ eos_token }}
{%- endif %}
{%- endfor %}
)";

constexpr const char* kPhi3 = R"(
{%- for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content|trim ~ '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}
)";

constexpr const char* kZephyr = R"(
{%- for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content|trim ~ eos_token ~ '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}
)";

std::string joined(std::initializer_list<const char*> parts) {
  std::string all;
  for (const char* part : parts) all += std::string(part).substr(1);  // without the line end behind R"(
  return all;
}

}  // namespace

const std::vector<NamedTemplate>& named_templates() {
  static const std::vector<NamedTemplate> templates = {
      {"alpaca", joined({kChecked, kThreeRoles, kAlpaca}), {}},
      {"chatml", joined({kChecked, kChatMl}), {"<|im_start|>", "<|im_end|>"}},
      {"gemma", joined({kChecked, kThreeRoles, kUserBehindSystem, kGemma}), {"<start_of_turn>", "<end_of_turn>"}},
      {"llama3", joined({kChecked, kLlama3}), {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
      {"mistral", joined({kChecked, kThreeRoles, kUserBehindSystem, kMistral}), {}},
      {"phi3", joined({kChecked, kThreeRoles, kPhi3}), {"<|user|>", "<|assistant|>", "<|end|>"}},
      {"zephyr", joined({kChecked, kThreeRoles, kZephyr}), {}}};
  return templates;
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const NamedTemplate& one : named_templates()) names.emplace_back(one.name);
  return names;
}

const NamedTemplate* find_template(std::string_view name) {
  const auto& all = named_templates();
  const auto it = std::find_if(all.begin(), all.end(), [&](const NamedTemplate& one) { return one.name == name; });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace hone::text
