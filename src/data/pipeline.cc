// Records are read in blocks by the caller's thread, tokenised by others, and handed out in order.
#include <algorithm>
#include <deque>
#include <future>

#include "base/cpus.h"
#include "base/threads.h"
#include "data/message_fields.h"
#include "data/tokenise.h"

namespace hone::data {
namespace {

constexpr std::size_t kBlockRecords = 512, kBlockBytes = 1 << 20;

// Some records in a row, on their way through a worker.
struct Block {
  std::vector<Pipeline::Item> items;
  std::promise<void> done;
};

std::size_t bytes_of(const Record& record) {
  struct Sizes {
    std::size_t operator()(const TextRecord& r) const { return r.text.size(); }
    std::size_t operator()(const PromptRecord& r) const {
      std::size_t size = r.prompt.size() + r.completion.size();
      for (const std::string& other : r.others) size += other.size();
      return size;
    }
    std::size_t operator()(const IdsRecord& r) const { return r.input_ids.size() * sizeof(r.input_ids[0]); }
    std::size_t operator()(const ChatRecord& r) const {
      return r.chat.messages.size() + r.chat.tools.size() + r.chat.documents.size();
    }
    std::size_t operator()(const LabelledRecord& r) const { return r.text.size() + r.text_pair.value_or("").size(); }
    std::size_t operator()(const PreferenceRecord& r) const {
      return 2 * r.prompt.size() + r.chosen.size() + r.rejected.size();
    }
    std::size_t operator()(const ChatPreferenceRecord& r) const { return (*this)(r.chosen) + (*this)(r.rejected); }
    std::size_t operator()(const JudgedRecord& r) const { return std::visit(*this, r.answer); }
    std::size_t operator()(const AskedRecord& r) const {
      return r.prompt.size() + r.answer.size() + (r.chat ? (*this)(ChatRecord{*r.chat}) : 0);
    }
    std::size_t operator()(const ChoiceRecord& r) const {
      std::size_t size = r.choices.size() * (r.prompt.size() + (r.chat ? r.chat->messages.size() : 0));
      for (const std::string& choice : r.choices) size += choice.size();
      return size;
    }
    std::size_t operator()(const TaggedRecord& r) const {
      std::size_t size = r.text.size();
      for (const std::string& word : r.words) size += word.size() + 1;
      return size;
    }
    std::size_t operator()(const StepsRecord& r) const {
      std::size_t size = r.prompt.size();
      for (const std::string& step : r.steps) size += step.size() + 1;
      return size;
    }
    std::size_t operator()(const QuestionRecord& r) const { return r.question.size() + r.context.size(); }
    std::size_t operator()(const EmbeddingRecord& r) const {
      std::size_t size = r.query.size() + r.document.size();
      for (const std::string& other : r.others) size += other.size();
      return size;
    }
  };
  const std::size_t said = record.teacher ? record.teacher->ids.size() * (sizeof(std::int32_t) + sizeof(float)) : 0;
  return said + std::visit(Sizes(), record.content);
}

}  // namespace

struct Pipeline::State {
  State(std::function<bool(Item&)> read, const Tokenising& how, std::size_t threads)
      : read(std::move(read)),
        how(how),
        threads(threads > 0 ? threads : static_cast<std::size_t>(std::min(threads_by_cpu(cpus()), 16))),
        queue(2 * this->threads) {
    for (std::size_t i = 0; i < this->threads; ++i) workers.emplace_back("tokenise", [this] { work(); });
  }
  ~State() { queue.cancel(); }  // then the workers are joined

  // A failure waits until the records before it are through: the first one is reported.
  void read_block() {
    auto block = std::make_shared<Block>();
    try {
      std::size_t bytes = 0;
      for (Item item; bytes < kBlockBytes && block->items.size() < kBlockRecords;) {
        more = read(item);
        if (!more) break;
        bytes += bytes_of(item.record);
        block->items.push_back(std::move(item));
      }
    } catch (...) {
      failure = std::current_exception();
      more = false;
    }
    if (block->items.empty()) return;
    pending.emplace_back(block, block->done.get_future());
    queue.push(std::move(block));
  }

  bool next(Item& item) {
    while (at == current.size()) {
      while (more && pending.size() < 2 * threads) read_block();
      if (pending.empty()) {
        if (failure) std::rethrow_exception(failure);
        return false;
      }
      auto [block, done] = std::move(pending.front());
      pending.pop_front();
      done.get();
      current = std::move(block->items);
      at = 0;
    }
    item = std::move(current[at++]);
    return true;
  }

  void work() {
    while (const auto block = queue.pop()) {
      try {
        for (Item& item : (*block)->items) {
          item.tokens = to_tokens(item.record, how, item.path);
          without_read_by_template(item.record.unread, how);
        }
        (*block)->done.set_value();
      } catch (...) {
        (*block)->done.set_exception(std::current_exception());
      }
    }
  }

  std::function<bool(Item&)> read;
  const Tokenising& how;
  const std::size_t threads;
  BoundedQueue<std::shared_ptr<Block>> queue;
  std::deque<std::pair<std::shared_ptr<Block>, std::future<void>>> pending;
  bool more = true;
  std::exception_ptr failure;
  std::vector<Item> current;  // tokenised; what is before `at` has been handed out
  std::size_t at = 0;
  std::vector<Worker> workers;
};

Pipeline::Pipeline(std::function<bool(Item&)> read, const Tokenising& how, std::size_t threads)
    : state_(std::make_unique<State>(std::move(read), how, threads)) {}
Pipeline::~Pipeline() = default;
bool Pipeline::next(Item& item) { return state_->next(item); }

}  // namespace hone::data
