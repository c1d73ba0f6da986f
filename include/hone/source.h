// Records as they are read, and the sources that read them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hone/config.h"
#include "hone/pictures.h"
#include "hone/text.h"

namespace hone {

// The forms of records.
struct TextRecord {
  std::string text;
};
struct PromptRecord {
  std::string prompt, completion;
  std::vector<std::string> others = {};  // other good completions: none is learnt, answers are compared with all
};
struct IdsRecord {
  std::vector<std::int32_t> input_ids;
  std::optional<std::vector<std::int32_t>> labels = {};  // not shifted, -100 = none; default: the ids
};
struct ChatRecord {
  Conversation chat;
  std::vector<int> chosen = {};  // of each message: 1 is learnt, 0 is not, -1 not said; empty: none says
};
struct LabelledRecord {
  std::string text;
  std::optional<std::string> text_pair = {};
  // By ProblemType: a name, or a whole number as text; a JSON list of them, ["a", "b"], or a, b; a number, or a JSON
  // list of numbers.
  std::string label;
};
// A text whose words have labels: words with a label each, or a text and what stands in it where.
struct TaggedRecord {
  std::vector<std::string> words, tags = {};  // names, or whole numbers as text
  std::string text = {};                      // in place of words
  struct Span {
    std::int64_t start = 0, end = 0;  // in characters (code points), the end not included
    std::string label = {};
  };
  std::vector<Span> spans = {};
};
// The steps of an answer, and what is to be said of each.
struct StepsRecord {
  std::string prompt;
  std::vector<std::string> steps, labels = {};  // as many; names, or whole numbers as text
};
// A question about a text, and what of the text answers it.
struct QuestionRecord {
  std::string question, context;
  struct Answer {
    std::string text;
    std::int64_t start = 0;  // its first character (code point) in the context
  };
  std::vector<Answer> answers = {};  // the first one is learnt, all are good; none: the text does not say
  std::string id = {};               // "": none is given
};
struct PreferenceRecord {
  std::string prompt, chosen, rejected;  // a prompt with two answers, of which the first is the better one
};
struct ChatPreferenceRecord {
  ChatRecord chosen, rejected;  // with the same messages up to chat.prompt, which both say
};
struct JudgedRecord {
  std::variant<PromptRecord, ChatRecord> answer;  // a prompt with an answer, texts or messages
  bool desirable = true;                          // whether it is one to give
};
struct AskedRecord {
  std::string prompt;  // a text, or
  std::optional<Conversation> chat = {};  // a conversation that the assistant is to answer
  std::string answer;  // what answers are compared with; "": nothing
};
struct ChoiceRecord {
  std::string prompt;                     // a text, or
  std::optional<Conversation> chat = {};  // a conversation that the assistant is to answer
  std::vector<std::string> choices = {};  // answers to choose from
  std::int64_t answer = 0;                // the right one, counted from 0
};
struct EmbeddingRecord {
  std::string query, document;           // a text, and one that is like it or answers it
  std::vector<std::string> others = {};  // that do not
  std::optional<double> score = {};      // how alike query and document are; then there are no others
  std::vector<double> scores = {};       // what document and each other are worth to the query; empty: nobody says
  std::string label = {};                // which class the query is of; then it stands alone
};

// What a teacher has said beforehand of a record's tokens, or of those that are learnt: at each place the likeliest
// tokens, of which one stood there, with the logarithms of their probabilities.
struct TeacherLogProbs {
  std::vector<std::uint32_t> counts = {};  // of each place, in order; 0: it has said nothing
  std::vector<std::int32_t> ids = {};      // of all places, one after another
  std::vector<float> log_probs = {};       // as many
};

// What a teacher has said of the targets of some places, [places, width]: ids of the likeliest tokens with the
// logarithms of their probabilities, the likeliest first. -inf: there is no further one; where it has said nothing, all
// are.
struct TaughtTargets {
  std::int64_t width = 0;  // 0: there is no teacher
  std::vector<std::int64_t> ids = {};
  std::vector<float> log_probs = {};
};

// One example as read.
struct Record {
  std::variant<TextRecord, PromptRecord, IdsRecord, ChatRecord, LabelledRecord, PreferenceRecord, ChatPreferenceRecord,
               JudgedRecord, AskedRecord, ChoiceRecord, TaggedRecord, StepsRecord, EmbeddingRecord, QuestionRecord>
      content = {};
  std::vector<std::string> unread = {};   // fields that nobody reads, each with the first record that has it
  std::vector<std::string> renamed = {};  // fields that columns name and records may lack, likewise
  std::int64_t line = 0;                  // 1-based line or row in its file
  std::vector<PictureFile> pictures = {};  // in the order of their places in the content
  std::optional<TeacherLogProbs> teacher = {};  // of records of language (SourceFile::teacher_log_probs)
  template <class Form>
  const Form* as() const {
    return std::get_if<Form>(&content);
  }
};

// What records are read for, which decides the fields that they must have.
enum class RecordKind {
  language,    // what a language model learns: texts, prompts with completions, ids, conversations
  labelled,    // a text, or two, with a label
  preference,  // a chosen and a rejected answer to a prompt, texts or messages: two documents (Role) that share a row
  asked,       // a prompt that the model is to answer while it learns, and what answers are compared with
  judged,      // an answer to a prompt, and whether it is desirable; or a preference, whose answers are judged so
  choice,      // a prompt with answers, of which one is right: documents (Role) that share a row; measured, not learnt
  tagged,      // a text whose words have labels
  steps,       // a prompt and the steps of an answer, each with a label
  embedding,   // a text with one that is to lie near it, and others that are not: documents (Role) that share a row
  question,    // a question about a text, part of which answers it: a document for each window of the text
  seq2seq,     // a text and what is to be made of it, each a document (Role) of its own in one row
  ranked,      // a query with texts and what each is worth to it: pairs of texts, documents (Role) that share a row
};
template <>
inline constexpr auto config::enum_names<RecordKind> =
    std::to_array<std::pair<RecordKind, std::string_view>>({{RecordKind::language, "language"},
                                                            {RecordKind::labelled, "labelled"},
                                                            {RecordKind::preference, "preference"},
                                                            {RecordKind::judged, "judged"},
                                                            {RecordKind::asked, "asked"},
                                                            {RecordKind::choice, "choice"},
                                                            {RecordKind::tagged, "tagged"},
                                                            {RecordKind::steps, "steps"},
                                                            {RecordKind::embedding, "embedding"},
                                                            {RecordKind::question, "question"},
                                                            {RecordKind::seq2seq, "seq2seq"},
                                                            {RecordKind::ranked, "ranked"}});

// What a labelled text is given: names and losses are those of transformers' problem_type.
enum class ProblemType {
  single_label_classification,  // one of some labels: cross-entropy
  multi_label_classification,   // any number of some labels: each is there or not, binary cross-entropy
  regression,                   // a number, or one for each label: mean squared error
};
template <>
inline constexpr auto config::enum_names<ProblemType> = std::to_array<std::pair<ProblemType, std::string_view>>(
    {{ProblemType::single_label_classification, "single_label_classification"},
     {ProblemType::multi_label_classification, "multi_label_classification"},
     {ProblemType::regression, "regression"}});

// Which tokens carry the labels of tagged records, and how steps become tokens.
struct TokenLabels {
  bool all = false;                                   // every token of a word, not the first one alone
  std::string step_separator = "\n";                  // behind each step; its last token carries the step's label
  std::optional<std::int64_t> max_completion_length = {};  // tokens of all steps together; the rest is cut
  bool last_step_only = false;                        // the others' labels are not learnt
};

// How targets become documents: those of models that read a source whole.
struct TargetOptions {
  std::optional<std::int64_t> max_length = {};  // their tokens at most; nothing: as many as sources have
  std::int32_t start = 0;                       // what a target is begun with, and which nobody learns
  // The tokens of languages that sources and targets are marked with, in place of that which the tokenizer puts around
  // a text; "": that one.
  std::string source_language = {}, target_language = {};
};

// How questions become documents: each is the question and as much of its text as max_length has room for.
struct QuestionOptions {
  std::int64_t doc_stride = 128;  // tokens that two windows of a text share
  bool keep_texts = true;         // what answers are compared with, for evaluations (Dataset::question)
};

// A file to read records from, with the recipe's renamed columns ({"text": "story"} reads the field "story" as text).
struct SourceFile {
  std::string path;
  std::map<std::string, std::string> columns;
  std::optional<bool> header;            // CSV and TSV: first line names the columns; default: decided by its content
  std::vector<std::string> ignore = {};  // fields that other kinds of training use and that are to be passed over
  RecordKind records = RecordKind::language;
  ProblemType problem_type = ProblemType::single_label_classification;  // of labelled records
  // Called now and then while a pipe gives nothing; what it throws ends the reading. May be empty.
  std::function<void()> waiting = {};
  bool pictures = false;          // records of language may have some
  std::string image_folder = {};  // that their paths start from; "": the file's own
  std::string chat_template_kwargs = {};  // of conversations that do not say otherwise, a JSON object; "" = none
  bool teacher_log_probs = false;         // records of language have some (Record::teacher)
};

// A place between two records of a source; what the numbers mean is the source's matter.
struct SourcePlace {
  std::int64_t line = 0;
  std::uint64_t offset = 0;
};

// Reads one file format, or makes records without a file (path ""); plug-in (src/data/sources). Never holds more than a
// block of the file. The same file and options give the same records each time. One thread at a time.
class HONE_API Source {
 public:
  static constexpr std::string_view kInterface = "source";
  virtual ~Source() = default;
  virtual bool next(Record& record) = 0;  // false: no more; throws Error(data) with path:line
  // Behind the record that next() gave last, for a source that can go there at once: one made anew, told to seek()
  // there before anything else, goes on as this one does. Nothing: it is read from its beginning and records are passed
  // over.
  virtual std::optional<SourcePlace> place() const { return std::nullopt; }
  virtual void seek(const SourcePlace&) {}
};

}  // namespace hone
