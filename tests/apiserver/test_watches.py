"""Watches: what arrives, in which order, and how it ends."""

from apiserver.serving import PODS, Client, Serving, served
from moorage.apiserver import ApiServer

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_a_watch_resumes_after_the_version_it_names(api: Client) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    api.create_pod("b")
    api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    api.delete(f"{PODS}/b")
    with api.watch(f"{PODS}?watch=true&resourceVersion={version}") as watch:
        assert watch.names(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        api.create_pod("c")
        assert watch.names(1) == [("ADDED", "c")]


def test_a_deleted_object_carries_the_version_of_its_deletion(api: Client) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    with api.watch(f"{PODS}?watch=true&resourceVersion={version}") as watch:
        api.delete(f"{PODS}/a")
        _, obj = watch.next()
    assert int(obj["metadata"]["resourceVersion"]) > int(version)
    assert obj["metadata"]["resourceVersion"] == api.get(PODS).version


def test_a_watch_without_a_version_begins_with_what_is_there(api: Client) -> None:
    api.create_pod("a")
    with api.watch(f"{PODS}?watch=true") as watch:
        assert watch.names(1) == [("ADDED", "a")]


def test_initial_events_end_with_an_annotated_bookmark(api: Client) -> None:
    api.create_pod("a")
    with api.watch(f"{PODS}?watch=true&{INITIAL}") as watch:
        assert watch.names(1) == [("ADDED", "a")]
        kind, obj = watch.next()
        assert kind == "BOOKMARK"
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert obj["metadata"]["resourceVersion"] == api.get(PODS).version
        api.create_pod("b")
        assert watch.names(1) == [("ADDED", "b")]


def test_initial_events_need_a_way_to_match_versions(api: Client) -> None:
    answer = api.get(f"{PODS}?watch=true&sendInitialEvents=true")
    assert (answer.code, answer.fields) == (422, ["resourceVersionMatch"])


def test_bookmarks_tell_how_far_a_quiet_watch_has_come() -> None:
    with served(lambda: ApiServer(bookmark_seconds=0.05)) as (_, api):
        version = api.get(PODS).version
        with api.watch(f"{PODS}?watch=1&resourceVersion={version}&allowWatchBookmarks=1") as watch:
            node = api.create_node("n1")
            reached = node["metadata"]["resourceVersion"]
            marked = watch.until(lambda _, obj: obj["metadata"]["resourceVersion"] == reached)
            assert (marked["kind"], marked["apiVersion"]) == ("Pod", "v1")


def test_a_watch_ends_when_its_time_is_up(api: Client) -> None:
    version = api.get(PODS).version
    with api.watch(f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1") as watch:
        assert watch.ended()


def test_an_object_that_enters_or_leaves_a_selection_is_added_or_deleted(api: Client) -> None:
    version = api.get(PODS).version
    query = f"watch=1&resourceVersion={version}&labelSelector=app%3Dweb"
    with api.watch(f"{PODS}?{query}") as watch:
        api.create_pod("a")
        api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "web"}}})
        api.patch(f"{PODS}/a", {"metadata": {"annotations": {"n": "1"}}})
        left = api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "db"}}})
        assert watch.names(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        kind, obj = watch.next()
    assert kind == "DELETED"
    # The state the client last saw, under the version of the change.
    assert obj["metadata"]["labels"] == {"app": "web"}
    assert obj["metadata"]["resourceVersion"] == left.version


def test_the_watch_of_a_scheduler_loses_finished_pods(api: Client) -> None:
    version = api.get(PODS).version
    fields = "status.phase%21%3DSucceeded,status.phase%21%3DFailed"
    path = f"/api/v1/pods?watch=1&resourceVersion={version}&fieldSelector={fields}"
    with api.watch(path) as watch:
        api.create_pod("a")
        api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        api.delete(f"{PODS}/a")
        api.create_pod("b")
        assert watch.names(3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


def test_namespaces_are_watched_apart(api: Client) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    version = api.get(PODS).version
    with api.watch(f"/api/v1/namespaces/other/pods?watch=1&resourceVersion={version}") as watch:
        api.create_pod("here")
        body = {
            "metadata": {"name": "there"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        api.post("/api/v1/namespaces/other/pods", body)
        assert watch.names(1) == [("ADDED", "there")]


def test_history_is_bounded_and_says_so() -> None:
    with served(lambda: ApiServer(history_changes=8)) as (_, api):
        version = api.create_pod("a")["metadata"]["resourceVersion"]
        for number in range(20):
            api.patch(f"{PODS}/a", {"metadata": {"labels": {"n": str(number)}}})
        with api.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
            assert watch.code == 200
            kind, status = watch.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert status["message"].startswith(f"too old resource version: {version} (")
            assert watch.ended()


def test_a_version_from_the_future_cannot_be_watched(api: Client) -> None:
    assert api.get(f"{PODS}?watch=1&resourceVersion=99999").code == 504


def test_a_watch_can_show_table_rows(api: Client) -> None:
    api.create_pod("a")
    with api.watch(f"{PODS}?watch=1", TABLE) as watch:
        kind, table = watch.next()
    assert (kind, table["kind"], table["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")


def test_one_object_can_be_watched(api: Client) -> None:
    version = api.create_pod("a")["metadata"]["resourceVersion"]
    with api.watch(f"{PODS}/a?watch=1&resourceVersion={version}") as watch:
        api.create_pod("b")
        api.delete(f"{PODS}/a")
        assert watch.names(1) == [("DELETED", "a")]


def test_events_arrive_in_the_form_of_the_group_that_is_watched(api: Client) -> None:
    version = api.get(PODS).version
    path = f"/apis/events.k8s.io/v1/events?watch=1&resourceVersion={version}"
    with api.watch(path) as watch:
        body = {"metadata": {"name": "e"}, "message": "hello", "involvedObject": {"name": "a"}}
        api.post("/api/v1/namespaces/default/events", body)
        _, event = watch.next()
    assert (event["note"], event["apiVersion"]) == ("hello", "events.k8s.io/v1")


def test_a_reader_that_stops_reading_holds_nobody_up(serving: Serving, api: Client) -> None:
    version = api.get(PODS).version
    path = f"/api/v1/configmaps?watch=1&resourceVersion={version}"
    with api.watch(path), api.watch(path) as lively:
        filler = "x" * 500_000
        for number in range(30):
            body = {"metadata": {"name": f"c{number}"}, "data": {"filler": filler}}
            assert api.post("/api/v1/namespaces/default/configmaps", body).code == 201
            assert lively.names(1) == [("ADDED", f"c{number}")]
        assert serving.call(lambda: serving.server.watches.count) == 2


def test_stopping_the_server_ends_watches_in_good_order() -> None:
    with served(ApiServer) as (serving, api):
        version = api.get(PODS).version
        watch = api.watch(f"{PODS}?watch=1&resourceVersion={version}")
        serving.call(serving.server.watches.stop)
        assert watch.ended()
        watch.__exit__()
