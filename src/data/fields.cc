// Which fields of a file's rows make a Record, and the errors that show how to name them.
#include "data/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/asked.h"
#include "data/choices.h"
#include "data/conversations.h"
#include "data/embedding.h"
#include "data/judged.h"
#include "data/labelled.h"
#include "data/labels.h"
#include "data/message_fields.h"
#include "data/pictures.h"
#include "data/preference.h"
#include "data/questions.h"
#include "data/tagged.h"
#include "data/teacher_fields.h"
#include "data/prompt_fields.h"
#include "data/seq2seq.h"
#include "data/training_fields.h"
#include "data/unmet.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kExpected =
    "expected text, prompt and completion, input_ids, messages, or instruction and output";

// Proposes columns for well-known sets of names; they are shown, never used unasked.
std::string proposal(const std::vector<std::string>& names) {
  if (has(names, "chosen") || has(names, "chosen_messages"))
    return "preference pairs are not one of these forms: objective: {type: dpo} learns from them, hone eval --metric "
           "preference measures on them, hone inspect data --data.records preference shows them";
  if (has(names, "positive") || (has(names, "sentence1") && has(names, "sentence2")))
    return "texts to embed are not one of these forms: objective: {type: embedding} learns from them, hone inspect "
           "data --data.records embedding shows them";
  if (has(names, "tokens") && !first_of(names, {"tags", "ner_tags", "labels"}).empty())
    return "words with labels are not one of these forms: objective: {type: token_classification} learns them, hone "
           "inspect data --data.records tagged shows them";
  const std::string prompt = first_of(names, {"prompt", "question", "instruction", "query", "input", "context"});
  const std::string completion =
      first_of(names, {"completion", "answer", "response", "output", "target", "summary", "solution"});
  const std::string text =
      first_of(names, {"text", "content", "story", "document", "body", "sentence", "verse_text", "review", "passage"});
  Columns found;
  if (!prompt.empty() && !completion.empty())
    found = {{"prompt", prompt}, {"completion", completion}};
  else if (!text.empty())
    found = {{"text", text}};
  return advise_columns(found, {{"text", "story"}});
}

Error unknown_fields(const std::vector<std::string>& names, const Place& place, const std::string& fact) {
  const std::string found = names.empty() ? "none" : list_names(names);
  return Error(ErrorKind::data, fmt::format("{}: {}; found {}; {}", place.text(), fact, found, kExpected))
      .hint(proposal(names));
}

Error wrong_type(const json& value, const std::string& field, const Place& place, const char* expected) {
  return Error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected {}", place.text(), hone::quoted(field),
                                            type_of(value), expected));
}

std::vector<std::int32_t> ids_field(const json& object, const std::string& field, const Place& place) {
  const json& value = *find_field(object, field);
  if (!value.is_array()) throw wrong_type(value, field, place, "a list of integers");
  std::vector<std::int32_t> ids;
  ids.reserve(value.size());
  for (const json& element : value) {
    if (!element.is_number_integer())
      throw Error(ErrorKind::data, fmt::format("{}: field {}: number {} of the list is {}, expected a whole number",
                                               place.text(), hone::quoted(field), ids.size() + 1,
                                               element.is_number() ? element.dump() : type_of(element)));
    const bool fits = element.is_number_unsigned()
                          ? element.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max()
                          : element.get<std::int64_t>() >= std::numeric_limits<std::int32_t>::min() &&
                                element.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!fits)
      throw Error(ErrorKind::data, fmt::format("{}: field {}: {} does not fit 32 bits; expected a token id",
                                               place.text(), hone::quoted(field), element.dump()));
    ids.push_back(element.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

namespace {
const std::vector<std::string>& labelled_fields() {
  static const std::vector<std::string> names = {"text", "text_pair", "label"};
  return names;
}
}  // namespace

const std::vector<std::string>& known_fields(RecordKind records) {
  if (records == RecordKind::labelled) return labelled_fields();
  if (records == RecordKind::preference) return preference_fields();
  if (records == RecordKind::judged) return judged_fields();
  if (records == RecordKind::asked) return asked_fields();
  if (records == RecordKind::choice) return choice_fields();
  if (records == RecordKind::embedding) return embedding_fields();
  if (records == RecordKind::ranked) return ranked_fields();
  if (records == RecordKind::tagged) return tagged_fields();
  if (records == RecordKind::steps) return steps_fields();
  if (records == RecordKind::question) return question_fields();
  if (records == RecordKind::seq2seq) return seq2seq_fields();
  static const std::vector<std::string> names = {
      "text",  "prompt", "completion", "input_ids", "labels", "messages",  "conversations",       "instruction",
      "input", "output", "history",    "system",    "tools",  "documents", "chat_template_kwargs", "images"};
  return names;
}

const std::vector<std::string>& table_fields(RecordKind records) {
  if (records == RecordKind::preference) return preference_table_fields();
  if (records == RecordKind::judged) return judged_table_fields();
  if (records == RecordKind::asked) return asked_table_fields();
  if (records == RecordKind::choice) return choice_table_fields();
  if (records == RecordKind::embedding) return embedding_fields();
  if (records == RecordKind::ranked) return ranked_fields();
  if (records == RecordKind::seq2seq) return seq2seq_fields();
  if (records == RecordKind::labelled) return labelled_fields();
  static const std::vector<std::string> names = {"text", "prompt", "completion", "input_ids", "labels"};
  return names;
}

FieldMap::FieldMap(const SourceFile& file)
    : columns_(file.columns),
      ignore_(file.ignore),
      templates_(during(file.path, [&] { return ColumnTemplates(file.columns); })),
      records_(file.records),
      problem_type_(file.problem_type),
      pictures_(file.pictures && file.records == RecordKind::language),
      teacher_(file.teacher_log_probs && file.records == RecordKind::language),
      picture_folder_(picture_folder(file.path, file.image_folder)) {
  unmet_ = templates_.variables();
  std::vector<std::string> all = known_fields(records_);
  if (teacher_) all.insert(all.end(), teacher_fields().begin(), teacher_fields().end());
  for (auto& [known, field] : columns_) {
    const std::string made = templates_.made_field(known);
    if (!made.empty()) field = made;
    else if (is_optional_column(known)) unmet_.insert(field);
    if (has(all, known) && !field.empty()) continue;
    const std::string fact =
        field.empty() ? "is empty; expected a field of the file" : "is not read; expected one of " + join(all, ", ");
    const std::string near = nearest(known, all);
    Error error(ErrorKind::config, fmt::format("{}: columns: {} {}", file.path, hone::quoted(known), fact));
    const bool labelled = records_ == RecordKind::language && has(labelled_fields(), known);
    if (labelled)
      throw std::move(error).hint(
          "labels are learnt by objective: classification, of answers by objective: kto; hone "
          "inspect data --data.records labelled, or judged, shows them");
    if (has(teacher_fields(), known))
      throw std::move(error).hint("objective: {type: distillation, teacher_logprobs: true} learns from it");
    if (!near.empty() && !field.empty()) throw std::move(error).hint("did you mean " + near + "?");
    if (has(all, field))
      throw std::move(error).hint("what is read comes first: " + columns_words({{field, known}}));
    throw error;
  }
}

const std::string& FieldMap::source_of(const std::string& known) const {
  const auto it = columns_.find(known);
  return it == columns_.end() ? known : it->second;
}

Form FieldMap::form_of(const std::vector<std::string>& names, const Place& place) const {
  std::vector<std::string> wanted;
  for (const std::string& name : names)
    if (!has(ignore_, name)) wanted.push_back(name);
  if (records_ == RecordKind::labelled) return labelled_form(wanted, columns_, place);
  if (records_ == RecordKind::preference) return preference_form(wanted, columns_, place);
  if (records_ == RecordKind::judged) return judged_form(wanted, columns_, place);
  if (records_ == RecordKind::asked) return asked_form(wanted, columns_, place);
  if (records_ == RecordKind::choice) return choice_form(wanted, columns_, place);
  if (records_ == RecordKind::embedding) return embedding_form(wanted, columns_, place);
  if (records_ == RecordKind::ranked) return ranked_form(wanted, columns_, place);
  if (records_ == RecordKind::tagged) return tagged_form(wanted, columns_, place);
  if (records_ == RecordKind::steps) return steps_form(wanted, columns_, place);
  if (records_ == RecordKind::question) return question_form(wanted, columns_, place);
  if (records_ == RecordKind::seq2seq) return seq2seq_form(wanted, columns_, place);
  return language_form(wanted, place);
}

namespace {

// Those of a record, where the row can have some.
std::string images_of(const std::vector<std::string>& names, const FieldMap& map) {
  if (!map.reads_pictures()) return "";
  if (can_have(names, map.source_of("images"))) return map.source_of("images");
  return has(names, "image") ? "image" : "";
}

// What a conversation may have besides its messages, where the row can have it.
void add_extras(Form& form, const std::vector<std::string>& names, const FieldMap& map) {
  const auto take = [&](const char* known, std::string& into) {
    if (can_have(names, map.source_of(known))) into = map.source_of(known);
  };
  form.images = images_of(names, map);
  take("system", form.system);
  take("tools", form.tools);
  take("documents", form.documents);
  take("chat_template_kwargs", form.variables);
  if (form.instruction.empty()) return;
  take("input", form.input);
  take("history", form.history);
}

// A field inside another may be missing in some rows.
Form without_missing_extras(Form form, const json& value) {
  for (std::string* name :
       {&form.system, &form.tools, &form.documents, &form.variables, &form.input, &form.history, &form.images})
    if (!name->empty() && find_field(value, *name) == nullptr) name->clear();
  return form;
}

}  // namespace

Form FieldMap::language_form(const std::vector<std::string>& names, const Place& place) const {
  Form form = columns_.empty() ? own_form(names, place) : renamed_form(names, place);
  if (!teacher_) return form;
  form.logprobs = source_of("logprobs");
  if (!can_have(names, form.logprobs))
    throw Error(ErrorKind::data, fmt::format("{}: no field {} with a teacher's log-probabilities; found {}",
                                             place.text(), hone::quoted(form.logprobs), list_names(names)))
        .hint("hone teach makes such files; " + columns_words({{"logprobs", "..."}}) + " names another field");
  if (can_have(names, source_of("target_token_ids"))) form.logprob_ids = source_of("target_token_ids");
  return form;
}

Form FieldMap::own_form(const std::vector<std::string>& names, const Place& place) const {
  const bool text = has(names, "text"), ids = has(names, "input_ids");
  const bool prompt = has(names, "prompt"), completion = has(names, "completion");
  const bool messages = has(names, "messages"), conversations = has(names, "conversations");
  const bool alpaca = has(names, "instruction") && has(names, "output");
  if (text + ids + (prompt && completion) + messages + conversations + alpaca > 1)
    throw Error(ErrorKind::data,
                fmt::format("{}: more than one form of record; found {}", place.text(), list_names(names)))
        .hint("say which to read, for instance " + columns_words({{"text", "text"}}));
  Form form;
  if (text) form.text = "text", form.images = images_of(names, *this);
  if (ids) form.input_ids = "input_ids", form.labels = has(names, "labels") ? "labels" : "";
  if (prompt && completion) form.prompt = "prompt", form.completion = "completion";
  if (messages || conversations) form.messages = messages ? "messages" : "conversations";
  if (alpaca) form.instruction = "instruction", form.output = "output";
  if (form.is_conversation() || !form.prompt.empty()) add_extras(form, names, *this);
  if (!form.fields().empty()) return form;
  if (prompt || completion)
    throw unknown_fields(names, place, prompt ? "a prompt without a completion" : "a completion without a prompt");
  throw unknown_fields(names, place, "no known fields");
}

Form FieldMap::renamed_form(const std::vector<std::string>& names, const Place& place) const {
  const auto field = [&](const std::string& known) {
    const std::string& name = source_of(known);
    if (!can_have(names, name))
      throw Error(ErrorKind::data, fmt::format("{}: no field {} to read {} from; found {}", place.text(),
                                               hone::quoted(name), known, list_names(names)));
    return name;
  };
  const bool text = columns_.count("text"), ids = columns_.count("input_ids") || columns_.count("labels");
  const bool pair = columns_.count("prompt") || columns_.count("completion");
  const bool messages = columns_.count("messages"), conversations = columns_.count("conversations");
  const bool alpaca = columns_.count("instruction") || columns_.count("output");
  if (text + ids + pair + messages + conversations + alpaca > 1)
    throw Error(ErrorKind::config,
                fmt::format("{}: columns name more than one form of record; {}", place.path, kExpected));
  Form form;
  if (text) return {.text = field("text"), .images = images_of(names, *this)};
  if (pair) form.prompt = field("prompt"), form.completion = field("completion");
  if (messages || conversations) form.messages = field(messages ? "messages" : "conversations");
  if (alpaca) form.instruction = field("instruction"), form.output = field("output");
  if (!form.fields().empty()) {
    add_extras(form, names, *this);
    return form;
  }
  const bool labels = columns_.count("labels") || has(names, "labels");
  if (columns_.count("input_ids") || has(names, "input_ids"))
    return {.input_ids = field("input_ids"), .labels = labels ? field("labels") : ""};
  return own_form(names, place);  // columns rename only what belongs to conversations
}

namespace {

// Of records whose other fields may be missing.
const std::vector<std::string>& must(RecordKind records) {
  static const std::vector<std::string> sides = {"chosen", "rejected"}, none;  // a prompt has several names
  return records == RecordKind::preference ? sides : none;
}

}  // namespace

std::string FieldMap::null_field(const json& value, const std::vector<std::string>& names) const {
  const auto is_null = [&](const char* known) {
    const auto field = value.find(source_of(known));
    return field != value.end() && field->is_null();
  };
  if (records_ == RecordKind::judged)
    return is_null("label") && !has(names, source_of("chosen")) ? source_of("label") : "";
  if (records_ == RecordKind::labelled)
    return is_null("text") ? source_of("text") : is_null("label") ? source_of("label") : "";
  const bool whole = has(names, "text") || has(names, "input_ids") || has(names, "messages") ||
                     has(names, "conversations") || (has(names, "prompt") && has(names, "completion")) ||
                     (has(names, "instruction") && has(names, "output"));
  if (columns_.empty() && whole) return "";  // a column of another form may be empty
  const std::vector<std::string>& all =
      records_ == RecordKind::language ? known_fields(records_) : must(records_);
  for (const std::string& known : all) {
    if (is_optional_column(known) || (!columns_.empty() && columns_.count(known) == 0)) continue;
    const auto field = value.find(source_of(known));
    if (field != value.end() && field->is_null()) return source_of(known);
  }
  return "";
}

const char* needed_fields(RecordKind records) {
  return records == RecordKind::labelled ? "text and label"
         : records == RecordKind::asked  ? "a prompt"
         : records == RecordKind::judged ? "prompt, completion and label"
         : records == RecordKind::choice ? "prompt, choices and answer"
         : records == RecordKind::embedding ? "query and positive"
         : records == RecordKind::ranked    ? "query and texts with scores"
         : records == RecordKind::tagged    ? "tokens and tags"
         : records == RecordKind::steps     ? "prompt, completions and labels"
         : records == RecordKind::question  ? "question, context and answers"
         : records == RecordKind::seq2seq   ? "prompt and completion"
                                         : "chosen and rejected";
}

bool FieldMap::is_conversation(const json& value, const Form& form) const {
  if (records_ == RecordKind::seq2seq) return false;
  if (!form.chosen.empty()) return is_chat_pair(value, form);
  if (records_ == RecordKind::asked || records_ == RecordKind::choice) return is_chat_asked(value, form);
  return form.is_conversation() || (!form.prompt.empty() && find_field(value, form.prompt)->is_array());
}

// Those that a template has made, of a text.
void FieldMap::number_scores(json& value) const {
  for (const char* known : {"score", "scores"}) {
    const auto made = value.find(templates_.made_field(known));
    if (made != value.end() && made->is_string()) *made = score_of_text(made->get<std::string>());
  }
}

void FieldMap::read(json value, const Place& place, Record& record) {
  record = Record();
  record.line = place.line;
  const bool language = records_ == RecordKind::language;
  if (value.is_string() && columns_.empty() && language && !teacher_) {
    record.content = TextRecord{value.get<std::string>()};
    return;
  }
  if (!value.is_object())
    throw Error(ErrorKind::data, fmt::format("{}: got {}, expected an object{}", place.text(), type_of(value),
                                             !language          ? std::string(" with ") + needed_fields(records_)
                                             : columns_.empty() ? " or a string"
                                                                : ", as columns name fields"));
  templates_.fill(value, place);
  if (are_texts(records_)) number_scores(value);
  std::vector<std::string> names;
  for (const auto& [name, field] : value.items())
    if (!field.is_null()) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (const std::string null = null_field(value, names); !null.empty())
    throw Error(ErrorKind::data,
                fmt::format("{}: field {}: got null, expected a value", place.text(), hone::quoted(null)));
  const Form form = without_missing_extras(form_of(names, place), value);
  for (const std::string& name : form.fields())
    if (find_field(value, name) == nullptr) throw unknown_fields(names, place, "no field " + hone::quoted(name));
  const bool chat = is_conversation(value, form);
  check_extras(chat, !form.instruction.empty(), place);
  check_unread(value, form, place, record);
  note_renamed(names, form, record);
  if (teacher_) record.teacher = read_teacher(value, form, place);
  if (!form.chosen.empty()) {
    chat ? void(record.content = read_chat_pair(value, form, place))
         : void(record.content = read_text_pair(value, form, place));
    return;
  }
  if (records_ == RecordKind::asked) return void(record.content = read_asked(value, form, place));
  if (records_ == RecordKind::choice) return void(record.content = read_choice(value, form, place));
  if (are_texts(records_)) return void(record.content = read_embedding(value, form, place));
  if (records_ == RecordKind::tagged) return void(record.content = read_tagged(value, form, place));
  if (records_ == RecordKind::steps) return void(record.content = read_steps(value, form, place));
  if (records_ == RecordKind::question) return void(record.content = read_question(value, form, place));
  if (records_ == RecordKind::seq2seq) return void(record.content = read_seq2seq(value, form, place).content);
  if (records_ == RecordKind::judged) return void(record.content = read_judged(value, form, place));
  if (chat) return void(record.content = read_conversation(value, form, place, &record.pictures));
  record.pictures = own_pictures(value, form, place);
  const auto string = [&](const std::string& field) { return text_field(value, field, place); };
  if (!form.label.empty()) {
    const json& label = *find_field(value, form.label);
    LabelledRecord one{.text = string(form.text), .label = label_of(label, problem_type_, form.label, place)};
    if (!form.text_pair.empty()) one.text_pair = string(form.text_pair);
    record.content = std::move(one);
  } else if (!form.text.empty()) {
    record.content = TextRecord{string(form.text)};
  } else if (!form.prompt.empty()) {
    record.content = answered_prompt(string(form.prompt), value, form.completion, place);
  } else {
    IdsRecord one{.input_ids = ids_field(value, form.input_ids, place)};
    if (!form.labels.empty()) one.labels = ids_field(value, form.labels, place);
    record.content = std::move(one);
  }
}

namespace {

// What says something about a record beyond its texts, and is lost where the record has no place for it.
constexpr const char* kExtras[] = {"system", "tools", "documents", "chat_template_kwargs", "history", "labels"};

bool is_extra(const std::string& name) {
  return std::find(std::begin(kExtras), std::end(kExtras), name) != std::end(kExtras);
}

}  // namespace

bool FieldMap::is_judged_by_value(const std::string& name) {
  return find_foreign(name) || is_extra(name) || goes_with_ids(name);
}

void FieldMap::refuse_foreign(const std::string& name, const Form& form, const Place& place) const {
  if (has(ignore_, name)) return;
  const TrainingField* foreign = find_foreign(name);
  if (!foreign && !is_extra(name)) return;
  const std::string hint = ignore_words(name) + " passes over it";
  const bool judged = records_ == RecordKind::judged && is_of_degrees(name);
  if (judged || (!form.chosen.empty() && is_of_pairs(name)))
    throw Error(ErrorKind::data,
                fmt::format("{}: field {}: only {} is learnt, not by how much", place.text(), hone::quoted(name),
                            judged ? "whether an answer is desirable" : "which answer is the better one"))
        .hint(hint);
  const bool compared = records_ == RecordKind::asked || records_ == RecordKind::choice;
  if (compared && is_answer(name) && !form.answer.empty()) return;
  if (records_ == RecordKind::asked && is_answer(name))
    throw Error(ErrorKind::data, fmt::format("{}: field {}: nobody has said that answers are compared with it",
                                             place.text(), hone::quoted(name)))
        .hint(columns_words({{"answer", name}}) + " does; " + hint);
  if (foreign)
    throw Error(ErrorKind::data, fmt::format("{}: field {} is for {}, which is not this kind of training; {}",
                                             place.text(), hone::quoted(name), foreign->kind, advice_of(*foreign)))
        .hint(hint);
  const char* of = name == "labels" ? "input_ids" : name == "history" ? "instruction" : "conversations";
  throw Error(ErrorKind::data, fmt::format("{}: field {} is read only with {}; this record has {}", place.text(),
                                           hone::quoted(name), of, list_names(form.fields())))
      .hint(hint);
}

void FieldMap::check_unread(const json& value, const Form& form, const Place& place, Record& record) {
  const std::vector<std::string> used = form.fields();
  const bool chat = is_conversation(value, form);
  record.unread.clear();
  for (const auto& [name, field] : value.items()) {
    const bool lost = is_extra(name) && has(used, name) && name != form.tags && form.input_ids.empty() && !chat &&
                      !are_texts(records_);
    if (field.is_null() || (has(used, name) && !lost) || templates_.reads(name)) continue;
    if (!form.input_ids.empty() && goes_with_ids(name) && !has(ignore_, name)) {
      const std::string fact = contradiction(name, field);
      if (fact.empty()) continue;
      throw Error(ErrorKind::data, place.text() + ": " + fact)
          .hint(ignore_words(name) + " passes over it");
    }
    if (!is_blank(field)) refuse_foreign(name, form, place);
    const bool nested = std::any_of(used.begin(), used.end(), [&](const std::string& one) {
      return one.size() > name.size() && one.starts_with(name) && one[name.size()] == '.';
    });
    if (!nested && told_.insert(name).second) record.unread.push_back(name);
  }
  if (chat) add_message_fields(value, used, told_, record.unread);
}

void FieldMap::note_renamed(const std::vector<std::string>& names, const Form& form, Record& record) {
  if (unmet_.empty()) return;
  const std::vector<std::string> used = form.fields();
  std::erase_if(unmet_, [&](const std::string& field) {
    if (!has(used, field) && !(templates_.reads(field) && has(names, field))) return false;
    record.renamed.push_back(field);
    return true;
  });
}

std::vector<std::string> FieldMap::unread(const std::vector<std::string>& names, const Form& form, const Place& place) {
  const std::vector<std::string> used = form.fields();
  std::vector<std::string> others;
  for (const std::string& name : names) {
    const bool read = std::any_of(used.begin(), used.end(), [&](const std::string& one) {
      return one == name || (one.starts_with(name) && one[name.size()] == '.');
    });
    if (templates_.reads(name)) continue;
    if (read && !(is_extra(name) && form.input_ids.empty())) continue;  // in a table there is no conversation
    refuse_foreign(name, form, place);
    if (told_.insert(name).second) others.push_back(name);
  }
  return others;
}

void FieldMap::check_extras(bool conversation, bool alpaca, const Place& place) const {
  for (const auto& [known, field] : columns_) {
    const bool for_alpaca = known == "input" || known == "history";
    const bool extra = has({"system", "tools", "documents", "chat_template_kwargs"}, known);
    if ((extra && !conversation && !are_texts(records_)) || (for_alpaca && !alpaca))
      throw Error(ErrorKind::config,
                  fmt::format("{}: columns: {} is read only with {}, which {} is not", place.path, hone::quoted(known),
                              for_alpaca ? "instruction" : "conversations", place.text()));
  }
}

JudgedRecord FieldMap::read_judged(const json& value, const Form& form, const Place& place) const {
  const bool desirable = judgement_of(*find_field(value, form.label), form.label, place);
  if (is_conversation(value, form)) return {read_conversation(value, form, place), desirable};
  return judged(PromptRecord{text_field(value, form.prompt, place), text_field(value, form.completion, place)},
                desirable, place);
}

std::vector<PictureFile> FieldMap::own_pictures(const json& value, const Form& form, const Place& place) const {
  if (form.images.empty()) return {};
  return pictures_of(*find_field(value, form.images), picture_folder_, {form.images, place});
}

ChatRecord FieldMap::read_conversation(const json& value, const Form& form, const Place& place,
                                       std::vector<PictureFile>* pictures) const {
  ChatRecord one;
  Conversation& conversation = one.chat;
  json messages = json::array();
  const auto append = [&](const std::string& field, const std::string& why = "") {
    for (json& message : read_messages(*find_field(value, field), field, place, why))
      messages.push_back(std::move(message));
  };
  if (!form.system.empty()) {
    const std::string system = text_field(value, form.system, place);
    if (!system.empty()) messages.push_back(message("system", system));
  }
  if (!form.messages.empty()) append(form.messages);
  if (!form.prompt.empty()) {
    append(form.prompt);
    conversation.prompt = static_cast<std::int64_t>(messages.size());
    append(form.completion, fmt::format(", because field {} is one", hone::quoted(form.prompt)));
  }
  if (!form.instruction.empty()) {
    const AlpacaFields fields{text_field(value, form.instruction, place),
                              form.input.empty() ? "" : text_field(value, form.input, place)};
    const json* history = form.history.empty() ? nullptr : find_field(value, form.history);
    for (json& one : alpaca_prompt(fields, history, place)) messages.push_back(std::move(one));
    conversation.prompt = static_cast<std::int64_t>(messages.size());
    messages.push_back(message("assistant", text_field(value, form.output, place)));
  }
  if (records_ == RecordKind::judged) conversation.prompt = prompt_of_judged(messages, conversation.prompt, place);
  one.chosen = take_choices(messages, place.text());
  if (pictures && pictures_)
    *pictures = place_pictures(messages, own_pictures(value, form, place), picture_folder_, place);
  conversation.messages = template_json(messages, place);
  read_extras(value, form, place, conversation);
  return one;
}

}  // namespace hone::data
