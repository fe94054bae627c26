import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.util.concurrent.Flow;

/** Adds a hundred jobs over one connection: {@code Offers URL PATH TOKEN BYTES MORE}. The service takes neither BYTES nor MORE; they come in turn. */
public class Offers {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final HttpClient OTHER = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static String url, path;

    /** A body whose second half is sent when the service has answered other requests, and so has read the head. */
    record Late(byte[] body) implements BodyPublisher {
        public long contentLength() {
            return body.length;
        }

        public void subscribe(Flow.Subscriber<? super ByteBuffer> subscriber) {
            subscriber.onSubscribe(new Flow.Subscription() {
                boolean begun;

                public void request(long n) {
                    if (begun) return;
                    begun = true;
                    new Thread(() -> {
                        try {
                            for (int k = 0; k < 3; k++)
                                OTHER.send(HttpRequest.newBuilder(URI.create(url + "/healthz")).build(), BodyHandlers.discarding());
                        } catch (Exception failed) {
                            subscriber.onError(failed);
                            return;
                        }
                        subscriber.onNext(ByteBuffer.wrap(body));
                        subscriber.onComplete();
                    }).start();
                }

                public void cancel() {}
            });
        }
    }

    static int post(String token, BodyPublisher body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url + path)).header("Content-Type", "application/json");
        if (token != null) request.header("Authorization", "Bearer " + token);
        return CLIENT.send(request.POST(body).build(), BodyHandlers.ofString()).statusCode();
    }

    public static void main(String[] words) throws Exception {
        url = words[0];
        path = words[1];
        for (int k = 0; k < 100; k++) {
            byte[] body = ("{\"id\": \"" + k + "\", \"body\": \"\\r\\nUpgrade: h2c\\r\\n" + k + "\"}").getBytes();
            if (k % 10 == 3) System.out.println(post(null, publisher(body, k % 20 == 3)));
            if (k % 10 == 7) System.out.println(post(words[2], publisher(new byte[Integer.parseInt(words[k % 20 == 7 ? 3 : 4])], false)));
            System.out.println(post(words[2], publisher(body, k % 4 == 1)));
        }
        System.exit(0);
    }

    static BodyPublisher publisher(byte[] body, boolean late) {
        return late ? new Late(body) : HttpRequest.BodyPublishers.ofByteArray(body);
    }
}
