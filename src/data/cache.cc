// The token cache: keys, and building what is missing or damaged.
#include "data/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/indexed_line.h"
#include "data/labels.h"
#include "data/pictures.h"
#include "data/source.h"
#include "data/source_hash.h"
#include "data/stream_entry.h"
#include "data/template_variables.h"
#include "data/token_vector_texts.h"
#include "data/tokenise.h"
#include "text/tokenizer/token_types.h"

namespace hone::data {
namespace {

constexpr std::uint64_t kVersion = 13;  // raise it when the same input gives other tokens or the file's form changes

std::string text_of(const config::Choice<Source>& source) {
  return source.type + (source.options ? config::to_json(source.options->write(), 0) : "");
}

std::string key_of(const std::string& content, const DataFile& file, const Tokenizer& tokenizer,
                   const Dataset::Options& options) {
  Hasher hasher;
  hasher.update_field("hone tokens").update_int(kVersion).update_field(content);
  hasher.update_field(file.source.type.empty() ? kind_of(file.path) : "source " + text_of(file.source));
  hasher.update_int(file.columns.size());
  for (const auto& [known, field] : file.columns) hasher.update_field(known).update_field(field);
  hasher.update_int(file.header ? 1 + *file.header : 0);
  hasher.update_int(static_cast<std::uint64_t>(file.max_samples.value_or(0))).update_int(file.ignore.size());
  for (const std::string& field : file.ignore) hasher.update_field(field);
  const std::string variables =
      with_others(variables_text(file.chat_template_kwargs), options.chat_template_kwargs);
  if (!variables.empty()) hasher.update_field("variables of the chat template").update_field(variables);
  hasher.update_field(tokenizer.fingerprint).update_int(options.append_eos);
  hasher.update_int(options.loss ? 1 + static_cast<std::uint64_t>(*options.loss) : 0);
  hasher.update_int(static_cast<std::uint64_t>(options.records));
  if (!options.teacher_prompt.empty()) hasher.update_field("prompt of a teacher").update_field(options.teacher_prompt);
  if (options.records == RecordKind::embedding)
    hasher.update_field(options.query_prompt).update_field(options.document_prompt);
  add_token_vectors(options, tokenizer, hasher);
  if (options.records == RecordKind::labelled || are_texts(options.records) ||
      options.records == RecordKind::seq2seq || are_of_tokens(options.records))  // cut when tokenised
    hasher.update_int(static_cast<std::uint64_t>(options.max_length))
        .update_int(static_cast<std::uint64_t>(options.overlong));
  if (const TokenLabels& how = options.token_labels; are_of_tokens(options.records))
    hasher.update_int(how.all)
        .update_field(how.step_separator)
        .update_int(static_cast<std::uint64_t>(how.max_completion_length.value_or(0)))
        .update_int(how.last_step_only);
  if (options.records == RecordKind::question)
    hasher.update_int(static_cast<std::uint64_t>(options.questions.doc_stride));
  if (options.records == RecordKind::seq2seq)
    hasher.update_int(static_cast<std::uint64_t>(options.targets.max_length.value_or(0)))
        .update_int(static_cast<std::uint64_t>(options.targets.start))
        .update_field(options.targets.source_language)
        .update_field(options.targets.target_language);
  if (!text::gives_token_types(tokenizer) &&
      (options.records == RecordKind::labelled || options.records == RecordKind::question ||
       options.records == RecordKind::ranked))
    hasher.update_field("no token types");
  if (file.source.type.empty() && kind_of(file.path) == "parquet" &&
      (options.records == RecordKind::labelled || options.records == RecordKind::tagged))
    hasher.update_field("names of labels");  // since they are read
  if (options.problem_type != ProblemType::single_label_classification)
    hasher.update_field("problem type").update_int(static_cast<std::uint64_t>(options.problem_type));
  if (options.pictures)  // whose paths the file keeps
    hasher.update_field("pictures").update_field(options.pictures->fingerprint()).update_field(
        picture_folder(file.path, file.image_folder).string());
  if (options.teacher_log_probs)
    hasher.update_field("log-probabilities of a teacher")
        .update_int(static_cast<std::uint64_t>(*options.teacher_log_probs));
  if (file.teacher_temperature)
    hasher.update_field(fmt::format("temperatures of a teacher {} {}", *file.teacher_temperature,
                                    options.teacher_temperature));
  for (const std::optional<std::int32_t>& id : {tokenizer.bos_id, tokenizer.eos_id})
    hasher.update_int(static_cast<std::uint64_t>(id.value_or(-1)));
  hasher.update_int(tokenizer.adds_bos).update_int(tokenizer.adds_eos);
  return hasher.digest128_hex();
}

std::shared_ptr<const TokenStore> maybe_load(const std::string& folder, const std::string& name,
                                             const std::string& key) {
  if (folder.empty()) return nullptr;
  try {
    return TokenStore::load(folder, name, key);
  } catch (const Error& error) {
    log::warning("{}; it is made again", error.what());
    return nullptr;
  }
}

void maybe_save(TokenStore& store) {
  try {
    store.save();
  } catch (const Error& error) {
    log::warning("the token cache is not kept: {}", error.what());
  }
}

bool can_be_learnt(const TokenStore& store, RecordKind records) {
  if (store.is_labelled() || records == RecordKind::asked) return true;
  for (std::int64_t doc = 0; doc < store.docs(); ++doc)
    if (store.supervised(store.begin(doc) + 1, store.end(doc)) > 0) return true;
  return false;
}

// Calls visit(doc, ids, labels) for each document.
template <class Visit>
void each_document(const TokenStore& store, const Visit& visit) {
  std::vector<std::int64_t> ids, labels;
  for (std::int64_t doc = 0; doc < store.docs(); ++doc) {
    ids.resize(store.end(doc) - store.begin(doc));
    labels.resize(ids.size());
    store.copy_ids(store.begin(doc), store.end(doc), ids.data());
    store.copy_labels(store.begin(doc), store.end(doc), labels.data());
    visit(doc, ids, labels);
  }
}

// Of the tokens themselves, which say all of the records that is trained on.
std::string key_of_tokens(const TokenStore& store, const Tokenizer& tokenizer) {
  Hasher hasher;
  hasher.update_field("hone tokens in memory").update_int(kVersion).update_field(tokenizer.fingerprint);
  for (std::int64_t doc = 0; doc < store.docs(); ++doc) {
    hasher.update_int(store.end(doc) - store.begin(doc)).update_int(static_cast<std::uint64_t>(store.line(doc)));
    store.add_content(hasher, doc);
  }
  return hasher.digest128_hex();
}

}  // namespace

void check_ids(const TokenStore& store, const std::function<std::string(std::int64_t doc)>& name_of,
               std::int64_t vocab_size) {
  if (vocab_size <= 0 || (store.counts().max_id < vocab_size && store.highest_exception() < vocab_size &&
                          store.taught().highest_id() < vocab_size))
    return;
  each_document(store, [&](std::int64_t doc, const auto& ids, const auto& labels) {
    const std::int64_t target = store.is_tagged() ? -1 : *std::max_element(labels.begin(), labels.end());
    const std::int64_t taught = store.taught().highest_id(store.begin(doc), store.end(doc));
    const std::int64_t highest = std::max({*std::max_element(ids.begin(), ids.end()), target, taught});
    if (highest >= vocab_size)
      throw Error(ErrorKind::data, fmt::format("{}: token id {}{}; expected less than the model's vocabulary of {}",
                                               name_of(doc), highest,
                                               highest == taught ? " in its log-probabilities" : "", vocab_size))
          .hint("is this the model's tokenizer?");
  });
}

// What a source makes without a file is known by its tokens alone: another version of it may make others.
CachedTokens load_tokens(const DataFile& file, const Tokenizer& tokenizer, const Dataset::Options& options,
                         std::uint64_t most_bytes) {
  const bool is_file = !file.path.empty();
  const std::string path = name_of(file);
  std::optional<SourceHash> source;
  if (is_file) source.emplace(path, options.cache_folder);
  const std::string content = source ? source->hash() : "";
  std::string key = is_file ? key_of(content, file, tokenizer, options) : "";
  const bool in_memory =
      options.keep_references || (options.records == RecordKind::question && options.questions.keep_texts);
  const std::string name = fmt::format("tokens-{}.bin", key), cache = is_file && !in_memory ? options.cache_folder : "";
  std::shared_ptr<const TokenStore> store = maybe_load(cache, name, key);
  std::shared_ptr<TokenStore> made;
  const double start = monotonic_seconds();
  if (!store) {
    store = made = tokenise_file(file, Tokenising(tokenizer, options), {cache, name, key, most_bytes});
    if (store->counts().records == 0) throw Error(ErrorKind::data, fmt::format("{}: no records", path));
    if (is_file && hash_file(path) != content)
      throw Error(ErrorKind::data, fmt::format("{}: changed while it was read", path)).hint("start again");
  } else {
    check_still_there(*store, path);
  }
  if (!is_file) key = key_of_tokens(*store, tokenizer);
  check_ids(*store, [&](std::int64_t doc) { return fmt::format("{}:{}", path, line_words(store->line(doc))); },
            options.vocab_size);
  // Kept only when it can be trained on: a start that fails leaves no folder behind.
  if (made && can_be_learnt(*made, options.records)) maybe_save(*made);
  if (source) source->note();
  const bool first = file.max_samples && store->counts().records == *file.max_samples;
  log::info("{}: {}{}, {} tokens, {}", path, first ? "the first " : "", counted(store->counts().records, "record"),
            human_count(static_cast<double>(store->size())),
            !made ? "from the cache" : "tokenised in " + human_duration(monotonic_seconds() - start));
  if (const auto [crowded, line] = store->crowded(); crowded > 0)
    log::warning("{}: {} in a word with another entity, which the word has the label of; the first at line {}", path,
                 crowded == 1 ? "1 entity is" : fmt::format("{} entities are", crowded), line_words(line));
  if (const std::int64_t seams = store->seams(0, store->size()))
    log::info("{}: {} the end of a prompt and the beginning of its completion; they are learnt", path,
              seams == 1 ? "1 token holds" : fmt::format("{} tokens hold", seams));
  if (!store->unread().empty())
    log::info("{}: fields that are not read: {}", path, list_names(store->unread(), 20));
  return {std::move(store), std::move(key), made != nullptr};
}

CachedTokens tokens_of(const std::vector<Record>& records, const std::string& name, const Tokenizer& tokenizer,
                       const Dataset::Options& options) {
  if (records.empty()) throw Error(ErrorKind::data, fmt::format("{}: no records", name));
  const Tokenising how(tokenizer, options);
  auto store = std::make_shared<TokenStore>();
  std::size_t place = 0;
  const auto read = [&](Pipeline::Item& item) {
    if (place == records.size()) return false;
    item.record = records[place];
    item.record.line = static_cast<std::int64_t>(++place);
    item.path = name;
    return true;
  };
  Pipeline pipeline(read, how);
  for (Pipeline::Item item; pipeline.next(item);) add_record(*store, item.record, item.tokens, item.record.line, name);
  check_ids(*store, [&](std::int64_t doc) { return fmt::format("{}:{}", name, store->line(doc)); },
            options.vocab_size);
  std::string key = key_of_tokens(*store, tokenizer);
  return {std::move(store), std::move(key)};
}

}  // namespace hone::data
