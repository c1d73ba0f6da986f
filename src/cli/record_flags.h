// Flags that several commands have in the same words: how records are read, and with what.
#pragma once

#include "hone/config.h"

namespace hone::cli {

// Each of a Config that has a member of the flag's name.
template <class C>
constexpr auto columns_flag() {
  return field("columns", &C::columns,
               "Renamed field, as text=story: read the field `story` as `text`; or a template, as text={{ a }}: "
               "{{ b }}; may be given several times.");
}
template <class C>
constexpr auto ignore_flag() {
  return field("ignore", &C::ignore,
               "Field that other kinds of training use and that is to be passed over; may be given several times.");
}
template <class C>
constexpr auto append_eos_flag() {
  return field("append_eos", &C::append_eos, "End each text with the tokenizer's end-of-sequence token.");
}
template <class C>
constexpr auto chat_template_flag() {
  return field("chat_template", &C::chat_template,
               "Chat template instead of the tokenizer's own: a file, a text, or a name such as chatml.");
}
template <class C>
constexpr auto chat_template_kwargs_flag() {
  return field("chat_template_kwargs", &C::chat_template_kwargs,
               "Variables of the chat template for conversations that do not say otherwise, a JSON object as in "
               "'{\"enable_thinking\": false}'.");
}
// Of commands that take rows of ids, too.
template <class C>
constexpr auto tokenizer_or_none_flag() {
  return field("tokenizer", &C::tokenizer,
               "bytes, none (for rows of ids), a folder or a tokenizer.json; default: the model's own.");
}
template <class C>
constexpr auto tokenizer_flag() {
  return field("tokenizer", &C::tokenizer, "bytes, a folder or a tokenizer.json; default: the model's own.");
}
template <class C>
constexpr auto adapter_flag() {
  return field("adapter", &C::adapter, "Folder of a LoRA adapter, of PEFT or of a run, to put on the model.");
}
// Of commands that take a run's folder with what it was trained beside.
template <class C>
constexpr auto adapter_of_run_flag() {
  return field("adapter", &C::adapter,
               "Folder of a LoRA adapter, of PEFT or of a run, to put on the model; a run that trained one names its "
               "model itself.");
}

}  // namespace hone::cli
