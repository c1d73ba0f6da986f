// Records to tokens, and whole files of them.
#include "data/tokenise.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/option_words.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/strings.h"
#include "data/asked_tokens.h"
#include "data/embedded_tokens.h"
#include "data/framed_places.h"
#include "data/labels.h"
#include "data/pictures.h"
#include "data/prompt_fields.h"
#include "data/question_tokens.h"
#include "data/seq2seq.h"
#include "data/source.h"
#include "data/stream_entry.h"
#include "data/template_variables.h"
#include "data/token_labels.h"
#include "text/chat/chat_mask.h"
#include "text/chat/chat_printed.h"
#include "text/chat/named_templates.h"
#include "text/tokenizer/no_tokenizer.h"

namespace hone::data {
namespace {

void append_eos_to(Tokens& tokens, const Tokenizer& tokenizer) {
  if (!tokenizer.eos_id || (!tokens.ids.empty() && tokens.ids.back() == *tokenizer.eos_id)) return;
  tokens.ids.push_back(*tokenizer.eos_id);
  tokens.labels.push_back(*tokenizer.eos_id);
}

Tokens from_text(const std::string& text, const Tokenizer& tokenizer, bool append_eos) {
  Tokens tokens;
  if (text.empty()) return tokens;
  tokens.ids = tokenizer.encode(text, true).ids;
  tokens.labels = tokens.ids;
  if (append_eos) append_eos_to(tokens, tokenizer);
  return tokens;
}

// The first token that is learnt. With an empty prompt that is what follows the tokens put before a text.
std::size_t first_learnt(const Encoding& encoding, std::size_t prompt_size, const Tokenizer& tokenizer) {
  std::size_t first = 0;
  if (prompt_size == 0) {
    const std::vector<std::int32_t> around = tokenizer.encode("", true).ids;
    const auto is_put = [&](std::size_t i) {
      return i < around.size() && encoding.ids[i] == around[i] && encoding.offsets[i].second == 0;
    };
    while (first < encoding.ids.size() && is_put(first)) ++first;
    return first;
  }
  while (first < encoding.ids.size() && encoding.offsets[first].second <= prompt_size) ++first;
  return first;
}

bool is_byte(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string token = tokenizer.token_of(id).value_or("");
  return token.size() == 6 && token.starts_with("<0x");
}

// Unigram gives all bytes of a run of unknown characters the offsets of the run: those of the prompt are the ones that
// it has without the completion, too. Returns the first that is not; `first` where the token there is none of these.
std::size_t behind_prompt_bytes(const Encoding& encoding, std::size_t first, const std::string& prompt,
                                const Tokenizer& tokenizer) {
  const auto& [ids, offsets] = encoding;
  if (first + 1 >= ids.size() || offsets[first + 1] != offsets[first] || !is_byte(tokenizer, ids[first])) return first;
  const std::vector<std::int32_t> alone = tokenizer.encode(prompt).ids;
  const std::pair<std::uint32_t, std::uint32_t> run = offsets[first];
  while (first < ids.size() && offsets[first] == run && first < alone.size() && ids[first] == alone[first]) ++first;
  return first;
}

// One text, as a model meets it: tokens that hold any character of the completion are learnt, and whatever follows.
RecordTokens from_pair(const std::string& prompt, const Tokenising& how, bool all, Encoding encoding) {
  const Tokenizer& tokenizer = how.tokenizer;
  RecordTokens tokens;
  const auto& offsets = encoding.offsets;
  const std::size_t size = encoding.ids.size();
  std::size_t first = first_learnt(encoding, prompt.size(), tokenizer);
  if (!prompt.empty()) first = behind_prompt_bytes(encoding, first, prompt, tokenizer);
  const auto ends_with_eos = [&] { return tokenizer.eos_id && size > 0 && encoding.ids.back() == *tokenizer.eos_id; };
  // By position: an eos that ends the prompt is not the completion's, one that the tokenizer puts behind both is.
  if (first == size && ends_with_eos() && offsets.back().second == 0 && tokenizer.adds_eos) --first;
  const bool ends = first < size && ends_with_eos();
  for (std::size_t i = first; i < size; ++i)
    if (offsets[i].first < prompt.size() && offsets[i].second > prompt.size() && !is_byte(tokenizer, encoding.ids[i]))
      tokens.seams.push_back(i);
  tokens.labels = encoding.ids;
  if (!all) std::fill_n(tokens.labels.begin(), first, -100);
  tokens.ids = std::move(encoding.ids);
  if (how.append_eos && tokenizer.eos_id && !ends) {
    tokens.ids.push_back(*tokenizer.eos_id);
    tokens.labels.push_back(*tokenizer.eos_id);
  }
  return tokens;
}

RecordTokens from_pair(const std::string& prompt, const std::string& completion, const Tokenising& how, bool all) {
  if (prompt.empty() && completion.empty()) return {};
  return from_pair(prompt, how, all, encode_untrimmed(how.tokenizer, prompt + completion));
}

Tokens from_ids(const IdsRecord& record, bool all, const std::string& place) {
  Tokens tokens{.ids = record.input_ids, .labels = record.labels && !all ? *record.labels : record.input_ids};
  const auto fail = [&](const std::string& fact) { throw Error(ErrorKind::data, fmt::format("{}: {}", place, fact)); };
  if (tokens.labels.size() != tokens.ids.size())
    fail(fmt::format("{} labels; expected as many as input_ids, {}", tokens.labels.size(), tokens.ids.size()));
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.ids[i] < 0) fail(fmt::format("input_ids[{}] is {}; expected a token id", i, tokens.ids[i]));
    if (tokens.labels[i] < 0 && tokens.labels[i] != -100)
      fail(fmt::format("labels[{}] is {}; expected a token id, or -100 for none", i, tokens.labels[i]));
  }
  return tokens;
}

std::string_view name_of(Loss loss) {
  for (const auto& [value, name] : config::enum_names<Loss>)
    if (value == loss) return name;
  return "";
}

text::Learnt learnt_of(std::optional<Loss> loss) {
  switch (loss.value_or(Loss::assistant)) {
    case Loss::all:
      return text::Learnt::all;
    case Loss::last:
      return text::Learnt::last;
    case Loss::completion:
      return text::Learnt::completion;
    case Loss::assistant:
      break;
  }
  return text::Learnt::assistant;
}

// What `learnt` chooses, less what the messages themselves say is not learnt.
std::vector<bool> chosen_of(const ChatRecord& record, text::Learnt learnt, const std::string& place) {
  const bool all = learnt == text::Learnt::all;
  const std::vector<bool> learnable = text::chosen_messages(record.chat, text::Learnt::assistant, place);
  std::vector<bool> chosen = all ? learnable : text::chosen_messages(record.chat, learnt, place);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto fail = [&](const char* fact, const std::string& advice) {
      throw Error(ErrorKind::data, fmt::format("{}: message {} {}", place, i + 1, fact)).hint(advice);
    };
    if (all && record.chosen[i] == 0)
      fail("says that it is not learnt, but loss is all",
           "leave out " + option_words("data.loss") + ", or what the messages say");
    if (!all && record.chosen[i] == 1 && !learnable[i])
      fail("says that it is learnt, but only the assistant's messages can be",
           option_words("data.loss", "all") + " learns all of a conversation");
    chosen[i] = chosen[i] && record.chosen[i] != 0;
  }
  return chosen;
}

// Without a loss, a conversation in two parts is a pair: its completion is learnt.
Tokens from_chat(const ChatRecord& record, const Tokenising& how, const std::string& place) {
  const text::Learnt learnt = !how.loss && record.chat.prompt >= 0 ? text::Learnt::completion : learnt_of(how.loss);
  std::vector<bool> chosen;
  if (!record.chosen.empty()) chosen = chosen_of(record, learnt, place);
  const Conversation chat = for_template(record.chat, how.chat_template(), how.pictures != nullptr);
  text::ChatTokens made = chosen.empty() || learnt == text::Learnt::all
                              ? text::chat_tokens(how.chat_template(), how.tokenizer, chat, learnt, place)
                              : text::chat_tokens(how.chat_template(), how.tokenizer, chat, chosen, place);
  if (!made.ends_turns) how.note_open_turns(place);
  return std::move(made.tokens);
}

// Without what ends texts: the answer is compared, and not where it ends. As EleutherAI's lm-eval does, white space
// behind a prompt goes to the answer, and a space comes between where neither has any.
RecordTokens from_choice(const std::string& asked, bool is_chat, const std::string& choice, const Tokenising& how) {
  const std::size_t end = is_chat ? asked.size() : asked.find_last_not_of(" \t\n\r\f\v") + 1;
  const bool apart = is_chat || end < asked.size() || choice.find_first_of(" \t\n\r\f\v") == 0;
  const std::string prompt = asked.substr(0, end), answer = asked.substr(end) + (apart ? "" : " ") + choice;
  const Tokenising plain(how.tokenizer, /*append_eos=*/false, {});
  Encoding encoding =
      is_chat ? how.tokenizer.encode(prompt + answer, false) : encode_untrimmed(how.tokenizer, prompt + answer);
  if (how.tokenizer.adds_eos && !is_chat && !encoding.ids.empty() && encoding.ids.back() == how.tokenizer.eos_id)
    encoding.ids.pop_back(), encoding.offsets.pop_back();
  RecordTokens tokens = from_pair(prompt, plain, false, std::move(encoding));
  tokens.characters = static_cast<std::uint32_t>(display_width(choice));
  return tokens;
}

RecordTokens from_choices(const ChoiceRecord& record, const Tokenising& how, const std::string& place) {
  const auto text_of_chat = [&] {
    return text::prompt_text(how.chat_template(), *record.chat, place, text::kTrainingDate);
  };
  const std::int64_t count = std::ssize(record.choices);
  if (count < 2 || record.answer < 0 || record.answer >= count)
    throw Error(ErrorKind::data, fmt::format("{}: answer {} of {}; expected one of two or more", place, record.answer,
                                             counted(count, "choice")));
  const std::string asked = record.chat ? during("rendering " + place, text_of_chat) : record.prompt;
  RecordTokens all;
  for (std::size_t i = 0; i < record.choices.size(); ++i) {
    RecordTokens one = from_choice(asked, record.chat.has_value(), record.choices[i], how);
    if (one.ids.empty() || trim(record.choices[i]).empty())
      throw Error(ErrorKind::data, fmt::format("{}: choice {} has no tokens", place, i));
    one.role = static_cast<std::int64_t>(i) == record.answer ? Role::chosen : Role::rejected;
    i == 0 ? void(all = std::move(one)) : all.companions.push_back(std::move(one));
  }
  return all;
}

// Both sides read the prompt anew: each is a document of its own.
RecordTokens as_pair(RecordTokens chosen, RecordTokens rejected) {
  if (chosen.ids.empty() || rejected.ids.empty()) return {};
  chosen.role = Role::chosen;
  rejected.role = Role::rejected;
  chosen.companions.push_back(std::move(rejected));
  return chosen;
}

RecordTokens from_labelled(const LabelledRecord& record, const Tokenising& how, const Place& where) {
  TextPair texts{.first = record.text, .second = {}};
  if (record.text_pair) texts.second = *record.text_pair;
  // A plug-in's source, or a program, may have written it in its own way.
  const bool one = how.problem_type == ProblemType::single_label_classification;
  std::string label = one ? std::string(trim(record.label)) : label_of(record.label, how.problem_type, "label", where);
  return labelled_tokens(texts, std::move(label), how, where.text());
}

// What policy keeps some of what is too long: the rest of it is not even stored.
std::optional<LabelledTokenising> labelled_of(const Dataset::Options& options) {
  const bool labelled = options.records == RecordKind::labelled || are_of_tokens(options.records);
  const bool has_texts = are_texts(options.records) || options.records == RecordKind::seq2seq;
  if (!labelled && !has_texts) return std::nullopt;
  const bool cuts = options.records == RecordKind::question ||  // into windows
                    (options.overlong != Overlong::drop && options.overlong != Overlong::error);
  return LabelledTokenising{cuts ? static_cast<std::size_t>(options.max_length) : 0,
                            options.overlong == Overlong::keep_end};
}

}  // namespace

Tokenising::Tokenising(const Tokenizer& given, const Dataset::Options& options)
    : of_places_(tokenizer_of_places(given, options.pictures.get())),
      tokenizer(of_places_ ? *of_places_ : given),
      append_eos(options.append_eos),
      loss(options.loss),
      labelled(labelled_of(options)),
      records(options.records),
      problem_type(options.problem_type),
      token_labels(options.token_labels),
      questions(options.questions),
      pictures(options.pictures),
      targets(options.targets),
      source_language(text::language_mark(tokenizer, options.targets.source_language, "src_lang")),
      target_language(text::language_mark(tokenizer, options.targets.target_language, "tgt_lang")),
      query_prompt(options.query_prompt), document_prompt(options.document_prompt),
      token_vectors(token_vector_texts(options, tokenizer)),
      teacher_prompt(options.teacher_prompt),
      chat_template_kwargs(options.chat_template_kwargs),
      keep_references(options.keep_references), teacher_log_probs(options.teacher_log_probs),
      teacher_temperature(options.teacher_temperature) {
  require_rest(query_prompt, "queries", *this);
  require_rest(document_prompt, "documents", *this);
}

const text::ChatTemplate& Tokenising::chat_template() const {
  std::call_once(once_, [&] {
    chat_ = text::ChatTemplate::of(tokenizer);
    if (chat_ && chat_->mentions("strftime_now"))
      log::info("the chat template asks for the date: training data gets 26 July 2024, the same in every run");
  });
  if (!chat_)
    throw Error(ErrorKind::config, "conversations, but the tokenizer has no chat template")
        .hint(fmt::format("put a chat_template.jinja beside its tokenizer.json, or give one by {}: a file, or one of "
                          "{}; records of instruction and output are conversations, for which alpaca is usual",
                          option_words("data.chat_template"), join(text::template_names(), ", ")));
  return *chat_;
}

void Tokenising::note_open_turns(const std::string& place) const {
  std::call_once(noted_, [&] {
    log::warning(
        "{}: the chat template does not end the assistant's turn with a special token that is learnt: the model "
        "will not learn where to stop",
        place);
  });
}

namespace {

// Files are read as the kind that is asked for; a plug-in's source may give another.
void check_kind(const Record& record, RecordKind wanted, const std::string& place) {
  const RecordKind kind = record.as<LabelledRecord>()                                          ? RecordKind::labelled
                          : record.as<AskedRecord>()                                           ? RecordKind::asked
                          : record.as<JudgedRecord>()                                          ? RecordKind::judged
                          : record.as<ChoiceRecord>()                                          ? RecordKind::choice
                          : record.as<EmbeddingRecord>()                                       ? RecordKind::embedding
                          : record.as<TaggedRecord>()                                          ? RecordKind::tagged
                          : record.as<StepsRecord>()                                           ? RecordKind::steps
                          : record.as<QuestionRecord>()                                        ? RecordKind::question
                          : record.as<PreferenceRecord>() || record.as<ChatPreferenceRecord>() ? RecordKind::preference
                                                                                               : RecordKind::language;
  if (kind == wanted || (wanted == RecordKind::judged && kind == RecordKind::preference)) return;
  if (wanted == RecordKind::ranked && kind == RecordKind::embedding) return;
  const auto* ids = record.as<IdsRecord>();
  if (wanted == RecordKind::seq2seq && (record.as<PromptRecord>() || (ids && ids->labels))) return;
  const auto name = [](RecordKind one) {
    for (const auto& [value, text] : config::enum_names<RecordKind>)
      if (value == one) return text;
    return std::string_view();
  };
  throw Error(ErrorKind::data, fmt::format("{}: the source gave a {} record; this kind of training reads {} records",
                                           place, name(kind), name(wanted)))
      .hint("SourceFile::records tells a source what to give; see docs/extending.md");
}

// Of one of the two.
RecordTokens with_tags(const TaggedRecord* words, const StepsRecord* steps, const Tokenising& how, const Place& place) {
  HONE_ASSERT(how.labelled);
  const TokenLabelling labelling{how.tokenizer, how.token_labels, how.labelled->most, how.labelled->keep_end};
  TaggedTokens made = words ? from_tagged(*words, labelling, place) : from_steps(*steps, labelling, place);
  RecordTokens tokens{std::move(made)};
  tokens.tags = std::move(made.tags);
  return tokens;
}

// Of what has labels: texts, words, steps and questions. Nothing: the record is another one. fail: loss is said.
template <class Fail>
std::optional<RecordTokens> with_labels(const Record& record, const Tokenising& how, const Place& where,
                                        const Fail& fail) {
  if (const auto* labelled = record.as<LabelledRecord>()) {
    HONE_ASSERT(how.labelled);
    if (how.loss) fail("a text with a label", "its label is learnt, and none of its tokens");
    return from_labelled(*labelled, how, where);
  }
  const auto* tagged = record.as<TaggedRecord>();
  const auto* steps = record.as<StepsRecord>();
  if (tagged || steps) {
    if (how.loss) fail("labels of tokens", "they are learnt, and nothing else");
    return with_tags(tagged, steps, how, where);
  }
  if (const auto* question = record.as<QuestionRecord>()) {
    if (how.loss) fail("a question about a text", "where its answer stands is learnt, and nothing else");
    return with_windows(*question, how, where.text());
  }
  return std::nullopt;
}

RecordTokens tokens_of(const Record& record, const Tokenising& how, const std::string& path) {
  const std::string place = Place{path, record.line}.text();
  check_kind(record, how.records, place);
  const auto fail_loss = [&](const char* what, const char* learnt = "") {
    const std::string loss = option_words("data.loss");
    throw Error(ErrorKind::config, fmt::format("{}: {}, but loss is {}", place, what, name_of(*how.loss)))
        .hint(*learnt ? fmt::format("{}; leave {} out", learnt, loss)
                      : loss + " chooses among the turns of conversations; leave it out, or set it to all");
  };
  const bool all = how.loss == Loss::all;
  const auto* ids = record.as<IdsRecord>();
  const auto* chat = record.as<ChatRecord>();
  const auto* chats = record.as<ChatPreferenceRecord>();
  const auto* asked = record.as<AskedRecord>();
  const auto* judged = record.as<JudgedRecord>();
  const auto* judged_chat = judged ? std::get_if<ChatRecord>(&judged->answer) : nullptr;
  const auto* choices = record.as<ChoiceRecord>();
  const bool in_turns = chat || chats || judged_chat || (asked && asked->chat) || (choices && choices->chat);
  if (!ids) text::require_tokenizer(how.tokenizer, place + (in_turns ? ": a conversation" : ": a text"));
  if (auto made = with_labels(record, how, {path, record.line}, fail_loss)) return *std::move(made);
  if (how.records == RecordKind::seq2seq) {
    if (how.loss) fail_loss("a source with a target", "the target is learnt, and nothing else");
    return ids ? from_source_and_target(*ids, how, place)
               : from_source_and_target(std::get<PromptRecord>(record.content), how);
  }
  const auto* texts = record.as<PreferenceRecord>();
  if ((texts || chats) && how.loss)
    fail_loss("a preference pair", "its answers are learnt, and nothing else");
  if (judged) {
    if (how.loss) fail_loss("an answer that is judged", "it is learnt, and nothing else");
    const auto of_texts = [&](const PromptRecord& one) { return from_pair(one.prompt, one.completion, how, false); };
    RecordTokens tokens = judged_chat ? RecordTokens{from_chat(*judged_chat, how, place)}
                                      : of_texts(std::get<PromptRecord>(judged->answer));
    tokens.role = judged->desirable ? Role::chosen : Role::rejected;
    return tokens;
  }
  if (asked) {
    if (how.loss) fail_loss("a prompt", "what is learnt is the model's own answers");
    return from_asked(*asked, how, place);
  }
  if (choices) {
    if (how.loss) fail_loss("answers to choose from", "they are scored, and nothing else");
    return from_choices(*choices, how, place);
  }
  if (const auto* embedded = record.as<EmbeddingRecord>()) {
    if (how.loss) fail_loss(noun_of(how.records), "none of their tokens is learnt");
    return from_texts(*embedded, how, place);
  }
  if (texts)
    return as_pair(from_pair(texts->prompt, texts->chosen, how, false),
                   from_pair(texts->prompt, texts->rejected, how, false));
  if (chats) return as_pair({from_chat(chats->chosen, how, place)}, {from_chat(chats->rejected, how, place)});
  if (chat) return {from_chat(*chat, how, place)};
  if (const auto* text = record.as<TextRecord>()) {
    if (how.loss && !all) fail_loss("a text");
    return {from_text(text->text, how.tokenizer, how.append_eos)};
  }
  if (ids) {
    if (how.loss && !all) fail_loss("input_ids");
    return {from_ids(*ids, all, place)};
  }
  const auto& pair = std::get<PromptRecord>(record.content);
  return from_pair(pair.prompt, pair.completion, how, all);
}

}  // namespace

RecordTokens to_tokens(const Record& record, const Tokenising& how, const std::string& path) {
  RecordTokens tokens = tokens_of(record, how, path);
  const auto place = [&] { return Place{path, record.line}.text(); };
  if (!how.pictures && !record.pictures.empty())
    throw Error(ErrorKind::config, place() + ": pictures, for which this kind of training and model have no use");
  if (how.keep_references) tokens.references = completions_in(record);
  if (how.pictures && !tokens.ids.empty())
    tokens.pictures = widen_places({tokens.ids, &tokens.labels, &tokens.seams}, record.pictures,
                                   {*how.pictures, how.tokenizer}, place());
  if (how.teacher_log_probs && !tokens.ids.empty()) {
    if (!record.teacher)
      throw Error(ErrorKind::data, place() + ": no log-probabilities of a teacher (Record::teacher); expected some");
    tokens.teacher = laid_on(tokens, *record.teacher, *how.teacher_log_probs, place);
  }
  return tokens;
}

void each_tokens(const DataFile& file, const Tokenising& how,
                 const std::function<void(const RecordTokens&, const Record&)>& visit) {
  SourceFile read_as = source_file(file, how.records, how.problem_type, how.pictures != nullptr);
  read_as.teacher_log_probs = how.teacher_log_probs.has_value();
  read_as.chat_template_kwargs = with_others(read_as.chat_template_kwargs, how.chat_template_kwargs);
  const std::unique_ptr<Source> source = open_source(read_as, file.source);
  Progress progress({.what = "tokenise", .unit = "record"});
  std::int64_t records = 0, tokens = 0, left = file.max_samples.value_or(std::numeric_limits<std::int64_t>::max());
  const std::string name = name_of(file);
  const FileTeacher teacher(file, how.teacher_log_probs.has_value(), how.teacher_temperature);
  Pipeline pipeline(
      [&](Pipeline::Item& item) {
        if (StopSignal::stop_requested()) StopSignal::check("reading " + name);  // nothing is lost by that
        item.path = name;
        if (left-- <= 0 || !next_of(*source, file.source, item.record)) return false;
        teacher.bring(item.record);
        return true;
      },
      how);
  for (Pipeline::Item item; pipeline.next(item);) {
    visit(item.tokens, item.record);
    tokens += static_cast<std::int64_t>(item.tokens.ids.size());
    if (++records % 256 != 0) continue;
    progress.add_tokens(std::exchange(tokens, 0));
    progress.update(records);
  }
}

namespace {

// Of ids with labels of their own: nothing predicts the first token, so that -100 for it alone makes it no prompt.
Tokens without_lone_mask(Tokens tokens) {
  if (tokens.labels.size() > 1 && tokens.labels[1] != -100) tokens.labels[0] = tokens.ids[0];
  return tokens;
}

}  // namespace

void add_record(TokenStore& store, const Record& record, const RecordTokens& tokens, std::int64_t line,
                const std::string& path) {
  if (record.as<QuestionRecord>()) {
    store.add_fields(record.unread, record.renamed);
    return add_windows(store, tokens, line);
  }
  const Tokens& plain = tokens;
  if (tokens.teacher) store.expect_teacher(*tokens.teacher, [&] { return Place{path, record.line}.text(); });
  const auto* ids = record.as<IdsRecord>();
  const bool own_labels = ids && ids->labels;
  if (tokens.tags)
    store.add_tagged(plain, *tokens.tags, line);
  else
    store.add(own_labels ? without_lone_mask(plain) : plain, line, record.as<TextRecord>() != nullptr, tokens.seams);
  store.add_fields(record.unread, record.renamed);
  if (tokens.ids.empty()) return;
  store.add_pictures(tokens.pictures);
  if (tokens.teacher) store.teach_last(*tokens.teacher);
  if (tokens.label) store.label_last(*tokens.label);
  if (tokens.role != Role::none) store.begin_group(tokens.role);
  if (tokens.characters) store.count_last(*tokens.characters);
  for (const RecordTokens& one : tokens.companions) {
    store.add_companion(one, one.role, one.seams);
    if (one.label) store.label_last(*one.label);
    if (one.characters) store.count_last(*one.characters);
  }
  if (!tokens.references.empty()) store.keep_references(tokens.references);
}

namespace {

// Pairs of texts whose answers both begin with the prompt that is given: there it is read twice. Of a few that may be
// meant; of most it is how the file was made.
class RepeatedPrompts {
 public:
  void count(const Record& record) {
    const auto* pair = record.as<PreferenceRecord>();
    if (!pair) return;
    ++pairs_;
    repeated_ += !trim(pair->prompt).empty() && pair->chosen.starts_with(pair->prompt) &&
                 pair->rejected.starts_with(pair->prompt);
  }
  void tell(const DataFile& file) const {
    if (2 * repeated_ <= pairs_) return;
    const bool renamed = file.columns.contains("prompt");
    log::warning("{}: in {} of {} both answers begin with the prompt, which is read twice there; with {} what both "
                 "begin with is the prompt", data::name_of(file), repeated_, counted(pairs_, "pair"),
                 renamed ? "columns that name none" : ignore_words("prompt"));
  }

 private:
  std::int64_t pairs_ = 0, repeated_ = 0;
};

}  // namespace

std::shared_ptr<TokenStore> tokenise_file(const DataFile& file, const Tokenising& how, TokenPlace place) {
  auto store = std::make_shared<TokenStore>(std::move(place));
  RepeatedPrompts repeated;
  const std::string path = name_of(file);
  each_tokens(file, how, [&](const RecordTokens& tokens, const Record& record) {
    add_record(*store, record, tokens, record.line, path);
    repeated.count(record);
  });
  repeated.tell(file);
  store->finish();
  return store;
}

}  // namespace hone::data
