// What the host does for a program while it runs. Part of openipu, written independently.
#ifndef openipu_poplar_StreamCallback_hpp
#define openipu_poplar_StreamCallback_hpp

#include <poplar/ArrayRef.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace poplar {

class StreamCallback {
public:
  enum class Result { Success, NotAvailable };
  virtual ~StreamCallback() {}
  virtual Result prefetch(void *p) = 0;
  virtual void fetch(void *p) = 0;
  virtual void complete() = 0;
  virtual void invalidatePrefetched() {}
};

// A function of the buffer as a callback, without prefetching.
class LegacyStreamCallback : public StreamCallback {
public:
  explicit LegacyStreamCallback(std::function<void(void *)> function) : function_(std::move(function)) {}
  Result prefetch(void *) override { return Result::NotAvailable; }
  void fetch(void *p) override { function_(p); }
  void complete() override {}

private:
  std::function<void(void *)> function_;
};

class StreamCallbackHandle {
public:
  StreamCallbackHandle() {}
  template <typename T, typename = typename std::enable_if<std::is_base_of<StreamCallback, T>::value>::type>
  StreamCallbackHandle(std::unique_ptr<T> callback) : callback_(std::move(callback)) {}
  template <typename F, typename = decltype(std::declval<F &>()(static_cast<void *>(nullptr))), typename = void>
  StreamCallbackHandle(F function) : callback_(new LegacyStreamCallback(std::move(function))) {}
  StreamCallback *operator->() const { return callback_.get(); }
  StreamCallback &operator*() const { return *callback_; }
  explicit operator bool() const { return static_cast<bool>(callback_); }

private:
  std::shared_ptr<StreamCallback> callback_;
};

class HostCallback {
public:
  virtual ~HostCallback() {}
  virtual void operator()(ArrayRef<const void *> inputs, ArrayRef<void *> outputs) = 0;
};

class HostCallbackHandle {
public:
  HostCallbackHandle() {}
  template <typename T, typename = typename std::enable_if<std::is_base_of<HostCallback, T>::value>::type>
  HostCallbackHandle(std::unique_ptr<T> callback) {
    std::shared_ptr<T> kept(std::move(callback));
    function_ = [kept](ArrayRef<const void *> in, ArrayRef<void *> out) { (*kept)(in, out); };
  }
  template <typename F,
            typename = decltype(std::declval<F &>()(ArrayRef<const void *>(), ArrayRef<void *>())), typename = void>
  HostCallbackHandle(F function) : function_(std::move(function)) {}
  void operator()(ArrayRef<const void *> in, ArrayRef<void *> out) const { function_(in, out); }

private:
  std::function<void(ArrayRef<const void *>, ArrayRef<void *>)> function_;
};

} // namespace poplar

#endif
